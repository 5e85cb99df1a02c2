#include "keystore/engine/transfer/record_export.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "keystore/engine/transfer/import_mark.h"
#include "keystore/engine/transfer/retirement.h"
#include "keystore/engine/transfer/waiting_engine.h"

namespace idempotency::keystore {

absl::StatusOr<RecordTotals> ReadTotals(Engine* engine, const std::function<bool()>& stopped) {
  StoreWalk walk(engine);
  for (;;) {
    if (stopped()) return absl::CancelledError("the server is stopping; run this again");
    const absl::StatusOr<std::vector<MovedRecord>> records = walk.Next();
    if (!records.ok()) return records.status();
    if (records->empty()) return walk.totals();
  }
}

absl::StatusOr<TransferFacts> RecordExport::Begin(core::Time now) {
  const absl::StatusOr<core::Time> brought = CheckImported(engine_);
  if (!brought.ok()) return brought.status();
  absl::StatusOr<std::optional<Retirement>> retired = FindRetirement(engine_);
  if (absl::IsDataLoss(retired.status())) {
    // Of whatever move it was, what came since is not here.
    retired = std::optional(Retirement{
        .time = {}, .actor = "", .moved_to = "a place that cannot be read", .digest = ""});
  }
  if (!retired.ok()) return retired.status();
  const absl::StatusOr<ReadResult> read = WaitingEngine(engine_).Read({ImportMarkKey()});
  if (!read.ok()) return read.status();
  return TransferFacts{.engine = engine_name_,
                       .token_floor = read->token_floor,
                       .made = now,
                       .lost_before = std::max(*brought, engine_->traits().lost_before),
                       .retired = *retired};
}

absl::StatusOr<RecordChunk> RecordExport::Next() {
  absl::StatusOr<std::vector<MovedRecord>> records = walk_.Next();
  if (!records.ok()) return records.status();
  RecordChunk chunk{.number = chunks_, .records = *std::move(records), .digest = {}};
  if (chunk.records.empty()) return chunk;
  ++chunks_;
  chunk.digest = walk_.totals().digest;
  return chunk;
}

absl::StatusOr<RecordTotals> RecordExport::End(const std::function<bool()>& stopped) {
  absl::StatusOr<RecordTotals> again = ReadTotals(engine_, stopped);
  if (!again.ok() || *again == walk_.totals()) return again;
  return absl::AbortedError(
      "the records have changed while they were read, so that somebody else writes to the store; "
      "stop every other server of it, and export again");
}

}  // namespace idempotency::keystore
