// Every record of a store, once, in the order of the stored keys; a mark (store_mark.h) is
// none.
//
// Thread safety: used by one thread; Next blocks.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_STORE_WALK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_STORE_WALK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/engine/transfer/moved_records.h"
#include "keystore/engine/transfer/waiting_engine.h"

namespace idempotency::keystore {

// What is given at once ends with the record that reaches this.
inline constexpr size_t kTransferChunkBytes = size_t{512} * 1024;

class StoreWalk {
 public:
  // The engine must outlive it.
  explicit StoreWalk(Engine* engine) : engine_(engine) {}

  // The next few records; none: that was all. DATA_LOSS where a record cannot be read; others as
  // Engine::Scan.
  absl::StatusOr<std::vector<MovedRecord>> Next();

  // What Next has given so far.
  uint64_t records() const { return tally_.records(); }
  RecordTotals totals() const { return tally_.totals(); }

 private:
  absl::Status ReadPage();
  absl::Status Take(const ScanEntry& entry);

  const WaitingEngine engine_;
  RecordTally tally_;
  std::deque<std::pair<MovedRecord, core::State>> read_;
  std::string resume_key_;
  std::string last_key_;
  bool at_end_ = false;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_STORE_WALK_H_
