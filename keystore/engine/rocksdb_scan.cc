#include "keystore/engine/rocksdb_scan.h"

#include <rocksdb/options.h>

#include <algorithm>

#include "keystore/engine/rocksdb_status.h"

namespace idempotency::keystore {
namespace {

std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

bool IsAt(const std::unique_ptr<rocksdb::Iterator>& iterator, std::string_view key) {
  return iterator != nullptr && iterator->Valid() && View(iterator->key()) == key;
}

Find FindAt(const std::unique_ptr<rocksdb::Iterator>& iterator, std::string_view key) {
  if (!IsAt(iterator, key)) return Find{};
  return Find{.kind = Find::Kind::kBytes, .bytes = View(iterator->value())};
}

}  // namespace

RocksDbScan::RocksDbScan(const RocksDbStore& store, bool open_only)
    : store_(store),
      snapshot_(&store.db()),
      open_(NewIterator(Family::kOpen)),
      finished_(open_only ? nullptr : NewIterator(Family::kFinished)) {}

std::unique_ptr<rocksdb::Iterator> RocksDbScan::NewIterator(Family family) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_.snapshot();
  // A scan must not push out what reads need.
  options.fill_cache = false;
  return std::unique_ptr<rocksdb::Iterator>(
      store_.db().NewIterator(options, store_.family(family)));
}

void RocksDbScan::Seek(std::string_view target) {
  const rocksdb::Slice slice(target.data(), target.size());
  open_->Seek(slice);
  if (finished_ != nullptr) finished_->Seek(slice);
}

void RocksDbScan::Next() {
  const std::string at(key());
  if (IsAt(open_, at)) open_->Next();
  if (IsAt(finished_, at)) finished_->Next();
}

bool RocksDbScan::Valid() const {
  // Behind a damaged block one family alone would not be in order any more.
  if (!status().ok()) return false;
  return open_->Valid() || (finished_ != nullptr && finished_->Valid());
}

std::string_view RocksDbScan::key() const {
  if (finished_ == nullptr || !finished_->Valid()) return View(open_->key());
  if (!open_->Valid()) return View(finished_->key());
  return std::min(View(open_->key()), View(finished_->key()));
}

core::Stored RocksDbScan::Load(size_t* bytes) const {
  const std::string_view at = key();
  const Find open = FindAt(open_, at);
  const Find finished = FindAt(finished_, at);
  *bytes = at.size() + open.bytes.size() + finished.bytes.size();
  return Combine({store_.sealer(), at}, open, finished).stored;
}

absl::Status RocksDbScan::status() const {
  absl::Status status = ToStatus(open_->status(), "cannot scan the open operations");
  if (status.ok() && finished_ != nullptr) {
    status = ToStatus(finished_->status(), "cannot scan the finished operations");
  }
  return status;
}

}  // namespace idempotency::keystore
