#include "keystore/engine/transfer/store_walk.h"

#include <variant>

#include "keystore/engine/transfer/store_mark.h"

namespace idempotency::keystore {
namespace {

// Entries of a page: of usual records well under a megabyte.
constexpr size_t kPage = 500;

}  // namespace

absl::StatusOr<std::vector<MovedRecord>> StoreWalk::Next() {
  // A page may be empty and not the last.
  while (read_.empty() && !at_end_) {
    if (absl::Status status = ReadPage(); !status.ok()) return status;
  }
  std::vector<MovedRecord> records;
  for (size_t bytes = 0; !read_.empty() && bytes < kTransferChunkBytes; read_.pop_front()) {
    auto& [moved, state] = read_.front();
    bytes += moved.key.size() + moved.bytes.size();
    tally_.Add(moved, state);
    records.push_back(std::move(moved));
  }
  return records;
}

absl::Status StoreWalk::ReadPage() {
  absl::StatusOr<ScanResult> page = engine_.Scan(kPage, resume_key_);
  if (!page.ok()) return page.status();
  for (const ScanEntry& entry : page->entries) {
    if (absl::Status status = Take(entry); !status.ok()) return status;
  }
  resume_key_ = std::move(page->resume_key);
  at_end_ = resume_key_.empty();
  return absl::OkStatus();
}

absl::Status StoreWalk::Take(const ScanEntry& entry) {
  if (IsMarkKey(entry.key)) return absl::OkStatus();
  const auto* record = std::get_if<core::Record>(&entry.stored);
  if (record == nullptr) {
    return absl::DataLossError(
        "a record cannot be read: it is sealed with a key that is not in --response_keys, which is "
        "to be brought back, or, where it is lost for good, named by --lost_response_keys; or it "
        "is "
        "damaged: idempotencyctl list names it, settle the operation and delete it by force. Then "
        "export again");
  }
  MovedRecord moved = Pack(entry.key, *record);
  // What is compared later goes by this order, and so does noticing what comes twice.
  if (!last_key_.empty() && moved.key <= last_key_) {
    return absl::InternalError("the store gave its records out of order; report this");
  }
  last_key_ = moved.key;
  read_.emplace_back(std::move(moved), record->state);
  return absl::OkStatus();
}

}  // namespace idempotency::keystore
