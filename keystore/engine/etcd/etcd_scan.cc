#include "keystore/engine/etcd/etcd_scan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "keystore/codec/key_codec.h"

namespace idempotency::keystore {
namespace {

constexpr int64_t kLargestOpenPart = 512;
constexpr int64_t kLargestFinishedPart = 32;
constexpr size_t kSmallPartBytes = size_t{256} * 1024;

}  // namespace

int64_t NextPart(Family family, int64_t limit, size_t part_bytes) {
  if (part_bytes > kSmallPartBytes) return kFirstPart;
  return std::min(limit * 2, family == Family::kOpen ? kLargestOpenPart : kLargestFinishedPart);
}

core::Stored DecodeStored(const RecordSealer& sealer, std::string_view stored_key,
                          std::string_view value) {
  if (value.empty()) return core::Absent{};
  std::optional<OpenedRecord> opened = sealer.Decode(stored_key, value);
  if (!opened.has_value()) return core::Unreadable{};
  return std::move(opened->record);
}

EtcdScan::EtcdScan(EtcdClient* client, const EtcdLayout* layout, const RecordSealer* sealer,
                   bool open_only)
    : client_(*client), layout_(*layout), sealer_(*sealer), open_only_(open_only) {
  open_.limit = kFirstPart;
  finished_.limit = kFirstPart;
}

void EtcdScan::Seek(std::string_view target) {
  SeekRow(open_, target);
  if (!open_only_) SeekRow(finished_, target);
}

void EtcdScan::SeekRow(Row& row, std::string_view target) {
  // Seeks go forward; what is here already need not be asked for again.
  while (IsValid(row) && KeyOf(row) < target) ++row.at;
  if (!IsValid(row)) Fetch(row, layout_.RecordKey(row.family, target));
  PassTombstones(row);
}

void EtcdScan::Next() {
  const std::string at(key());
  if (IsAt(open_, at)) NextOf(open_);
  if (IsAt(finished_, at)) NextOf(finished_);
}

void EtcdScan::NextOf(Row& row) {
  ++row.at;
  PassTombstones(row);
}

void EtcdScan::PassTombstones(Row& row) {
  for (;;) {
    while (IsValid(row) && row.part.kvs(row.at).value().empty()) ++row.at;
    if (IsValid(row) || row.ends || !status_.ok()) return;
    Fetch(row, row.part.kvs(row.part.kvs_size() - 1).key() + '\0');
  }
}

void EtcdScan::Fetch(Row& row, std::string key) {
  if (!status_.ok() || row.ends) return;
  etcdserverpb::TxnRequest request;
  etcdserverpb::RangeRequest* const range = request.add_success()->mutable_request_range();
  range->set_key(std::move(key));
  range->set_range_end(PrefixEnd(layout_.FamilyPrefix(row.family)));
  range->set_limit(row.limit);
  range->set_revision(revision_);
  absl::StatusOr<etcdserverpb::TxnResponse> response = client_.ReadNow(std::move(request));
  row.at = 0;
  row.part.Clear();
  row.ends = true;
  if (!response.ok()) {
    status_ = response.status();
    return;
  }
  if (revision_ == 0) revision_ = response->header().revision();
  if (response->responses_size() == 0) return;
  row.part = std::move(*response->mutable_responses(0)->mutable_response_range());
  row.ends = !row.part.more();
  row.limit = NextPart(row.family, row.limit, row.part.ByteSizeLong());
}

bool EtcdScan::Valid() const {
  return status_.ok() && (IsValid(open_) || (!open_only_ && IsValid(finished_)));
}

std::string_view EtcdScan::KeyOf(const Row& row) const {
  return layout_.StoredKey(row.family, row.part.kvs(row.at).key());
}

bool EtcdScan::IsAt(const Row& row, std::string_view stored_key) const {
  return IsValid(row) && KeyOf(row) == stored_key;
}

std::string_view EtcdScan::key() const {
  if (!IsValid(finished_)) return KeyOf(open_);
  if (!IsValid(open_)) return KeyOf(finished_);
  return std::min(KeyOf(open_), KeyOf(finished_));
}

core::Stored EtcdScan::Load(size_t* bytes) const {
  const std::string at(key());
  *bytes = 0;
  core::Stored stored;
  for (const Row* const row : {&finished_, &open_}) {
    if (!IsAt(*row, at)) continue;
    const std::string& value = row->part.kvs(row->at).value();
    *bytes += at.size() + value.size();
    // Under both only where somebody has put it there.
    stored = *bytes > at.size() + value.size() ? core::Stored(core::Unreadable{})
                                               : DecodeStored(sealer_, at, value);
  }
  return stored;
}

}  // namespace idempotency::keystore
