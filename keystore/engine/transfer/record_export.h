// Reads a whole store to be imported elsewhere (record_import.h), and reads it again to be sure
// that nobody has changed it meanwhile:
//
//   Begin -> Next, until it gives no records -> End
//
// Thread safety: used by one thread; calls block.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RECORD_EXPORT_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RECORD_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/transfer/moved_records.h"
#include "keystore/engine/transfer/store_walk.h"

namespace idempotency::keystore {

class RecordExport {
 public:
  // The engine must outlive it; the name is the one that --engine has for it.
  RecordExport(Engine* engine, std::string engine_name)
      : engine_(engine), engine_name_(std::move(engine_name)), walk_(engine) {}

  // `now`: by the store's clock. FAILED_PRECONDITION where the store is only a part of an import.
  absl::StatusOr<TransferFacts> Begin(core::Time now);
  // No records: that was all. Errors as StoreWalk's.
  absl::StatusOr<RecordChunk> Next();
  // Once that was all: reads everything again, and gives what it comes to. `stopped` is asked now
  // and then. ABORTED where it is not what Next gave; CANCELLED where it was stopped.
  absl::StatusOr<RecordTotals> End(const std::function<bool()>& stopped);

 private:
  Engine* const engine_;
  const std::string engine_name_;
  StoreWalk walk_;
  uint64_t chunks_ = 0;
};

// What the whole store comes to. Errors as StoreWalk's; CANCELLED where it was stopped.
absl::StatusOr<RecordTotals> ReadTotals(Engine* engine, const std::function<bool()>& stopped);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RECORD_EXPORT_H_
