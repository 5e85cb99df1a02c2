#include "keystore/engine/rewrap.h"

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/write_batch.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "keystore/engine/rocksdb_options.h"
#include "keystore/engine/rocksdb_status.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {
namespace {

// So much is written and synced at a time.
constexpr size_t kBatchBytes = size_t{4} * 1024 * 1024;

std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// Goes over one family.
class FamilyRewrap {
 public:
  FamilyRewrap(const RocksDbStore& store, Family family, RewrapProgress* progress)
      : store_(store), family_(family), progress_(*progress) {
    const std::optional<SealKey> current = store.sealer().keys().current();
    if (current.has_value()) current_ = std::string(current->id);
  }

  absl::Status Run(const std::function<void(const RewrapProgress&)>& tell) {
    rocksdb::ManagedSnapshot snapshot(&store_.db());
    rocksdb::ReadOptions options;
    options.snapshot = snapshot.snapshot();
    options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> at(
        store_.db().NewIterator(options, store_.family(family_)));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      absl::Status status = Visit(View(at->key()), View(at->value()));
      if (status.ok() && batch_.GetDataSize() >= kBatchBytes) status = Write();
      if (!status.ok()) return status;
      if (++progress_.visited % kRewrapTold == 0) tell(progress_);
    }
    if (!at->status().ok()) return ToStatus(at->status(), "cannot go over the store");
    return Write();
  }

 private:
  absl::Status Visit(std::string_view stored_key, std::string_view bytes) {
    const Place place{store_.sealer(), stored_key};
    const std::optional<StoredValue> stored = DecodeValue(place, bytes);
    if (!stored.has_value()) {
      ++progress_.unreadable;
      return absl::OkStatus();
    }
    if (stored->key_missing) {
      ++progress_.key_missing;
      return absl::OkStatus();
    }
    const std::string_view wanted = IsSealable(stored->record) ? current_ : std::string_view();
    if (stored->key_id == wanted) return absl::OkStatus();
    std::string value;
    if (!EncodeValue(place, stored->commit_number, stored->record, &value)) {
      return absl::InternalError("a record could not be sealed");
    }
    ++progress_.rewrapped;
    const rocksdb::Slice key(stored_key.data(), stored_key.size());
    return ToStatus(batch_.Put(store_.family(family_), key, value), "cannot fill a batch");
  }

  absl::Status Write() {
    if (batch_.Count() == 0) return absl::OkStatus();
    const rocksdb::Status written = store_.db().Write(MakeWriteOptions(), &batch_);
    batch_.Clear();
    return ToStatus(written, "cannot write what was rewrapped");
  }

  const RocksDbStore& store_;
  const Family family_;
  RewrapProgress& progress_;
  std::string current_;
  rocksdb::WriteBatch batch_;
};

}  // namespace

absl::StatusOr<RewrapProgress> RewrapRecords(
    const RocksDbStore& store, const std::function<void(const RewrapProgress&)>& tell) {
  RewrapProgress progress;
  for (const Family family : {Family::kOpen, Family::kFinished}) {
    uint64_t keys = 0;
    if (store.db().GetIntProperty(store.family(family), rocksdb::DB::Properties::kEstimateNumKeys,
                                  &keys)) {
      progress.estimated += keys;
    }
  }
  for (const Family family : {Family::kOpen, Family::kFinished}) {
    absl::Status status = FamilyRewrap(store, family, &progress).Run(tell);
    if (!status.ok()) return status;
  }
  return progress;
}

absl::Status ForgetOldKeys(const RocksDbStore& store, const RewrapProgress& done) {
  const absl::StatusOr<std::vector<std::string>> ids = store.KeyIds();
  if (!ids.ok()) return ids.status();
  const std::optional<SealKey> current = store.sealer().keys().current();
  std::vector<std::string> needed;
  for (const std::string& id : *ids) {
    const bool is_current = current.has_value() && id == current->id;
    const bool missing = !store.sealer().keys().Find(id).has_value();
    if (is_current || done.unreadable > 0 || (missing && done.key_missing > 0)) {
      needed.push_back(id);
    }
  }
  return needed == *ids ? absl::OkStatus() : store.SetKeyIds(needed);
}

}  // namespace idempotency::keystore
