#include "keystore/engine/transfer/import_mark.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "keystore/core/limits.h"
#include "keystore/engine/transfer/store_mark.h"

namespace idempotency::keystore {
namespace {

constexpr char kUnfinished[] = "import/unfinished";
constexpr char kFinished[] = "import/finished";
constexpr char kUnreadable[] =
    "what an import has noted in the store cannot be read; empty the store, and import again";

}  // namespace

core::Key ImportMarkKey() { return MarkKey("import"); }

core::Record MakeImportMark(const TransferFacts& facts, bool finished) {
  core::Record record =
      MakeMark(finished ? kFinished : kUnfinished, DigestOf(facts),
               std::clamp<uint64_t>(facts.token_floor - 1, 1, core::kMaxFencingToken), facts.made);
  record.changes = finished ? 2 : 1;
  // Of a freed key nothing else uses it.
  record.acquire_time = facts.lost_before;
  return record;
}

std::optional<ImportMark> ReadImportMark(const core::Record& record) {
  const bool finished = record.fingerprint.algorithm == kFinished;
  if (!finished && record.fingerprint.algorithm != kUnfinished) return std::nullopt;
  return ImportMark{.finished = finished,
                    .facts_digest = record.fingerprint.digest,
                    .lost_before = record.acquire_time};
}

absl::StatusOr<std::optional<ImportMark>> FindImportMark(const WaitingEngine& engine) {
  const auto record = FindMark(engine, ImportMarkKey(), kUnreadable);
  if (!record.ok()) return record.status();
  if (!record->has_value()) return std::optional<ImportMark>();
  std::optional<ImportMark> mark = ReadImportMark(**record);
  if (!mark.has_value()) return absl::DataLossError(kUnreadable);
  return mark;
}

absl::StatusOr<core::Time> CheckImported(Engine* engine) {
  const auto mark = FindImportMark(WaitingEngine(engine));
  if (!mark.ok()) return mark.status();
  if (!mark->has_value()) return core::Time{};
  if ((*mark)->finished) return (*mark)->lost_before;
  return absl::FailedPreconditionError(
      "the store holds only a part of the records that were being imported: start with "
      "--transfer=import and run the same idempotencyctl import to its end, or empty the store");
}

}  // namespace idempotency::keystore
