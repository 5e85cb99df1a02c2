#include "keystore/engine/transfer/import_mark.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "keystore/core/limits.h"

namespace idempotency::keystore {
namespace {

constexpr char kUnfinished[] = "import/unfinished";
constexpr char kFinished[] = "import/finished";

}  // namespace

core::Key ImportMarkKey() {
  return core::Key{.name_space = "\x01idempotency", .scope = "", .key = "import"};
}

// A key that is free, and that nobody forgets.
core::Record MakeImportMark(const TransferFacts& facts, bool finished) {
  core::Record record;
  record.state = core::State::kFreed;
  record.token = std::clamp<uint64_t>(facts.token_floor - 1, 1, core::kMaxFencingToken);
  record.attempt = 1;
  record.changes = finished ? 2 : 1;
  record.create_time = facts.made;
  record.update_time = facts.made;
  record.forget_time = core::kMaxTime;
  record.ended.push_back({.token = record.token, .attempt = 1, .verb = core::EndVerb::kReleased});
  record.fingerprint = {.algorithm = finished ? kFinished : kUnfinished, .digest = DigestOf(facts)};
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
  const absl::StatusOr<ReadResult> read = engine.Read({ImportMarkKey()});
  if (!read.ok()) return read.status();
  const core::Stored& stored = read->entries.front().stored;
  if (std::holds_alternative<core::Absent>(stored)) return std::optional<ImportMark>();
  const auto* record = std::get_if<core::Record>(&stored);
  std::optional<ImportMark> mark = record == nullptr ? std::nullopt : ReadImportMark(*record);
  if (mark.has_value()) return mark;
  return absl::DataLossError(
      "what an import has noted in the store cannot be read; empty the store, and import again");
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
