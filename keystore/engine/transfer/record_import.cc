#include "keystore/engine/transfer/record_import.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"
#include "keystore/engine/transfer/import_mark.h"
#include "keystore/engine/transfer/record_export.h"
#include "keystore/engine/transfer/retirement.h"
#include "keystore/engine/transfer/store_mark.h"
#include "keystore/engine/transfer/store_walk.h"

namespace idempotency::keystore {
namespace {

absl::Status Damaged(const char* what) {
  return absl::DataLossError(absl::StrCat(
      what,
      "; what came before is in the store, which is not whole: copy the file again and run the "
      "import again, or empty the store and import a new export"));
}

absl::Status NotEmpty() {
  return absl::FailedPreconditionError(
      "the store is not empty, and lacks a record that is imported; name an empty store");
}

bool IsAbsent(const core::Stored& stored) { return std::holds_alternative<core::Absent>(stored); }

bool Holds(const core::Stored& stored, const core::Record& record) {
  const auto* found = std::get_if<core::Record>(&stored);
  return found != nullptr && *found == record;
}

}  // namespace

// --- Beginning -----------------------------------------------------------------------------------

absl::Status RecordImport::Begin(core::Time now) {
  const TransferFacts& facts = plan_.facts;
  if (facts.token_floor == 0 || facts.token_floor > core::kMaxFencingToken + 1 ||
      !core::IsSet(facts.made) || facts.made > core::kMaxTime ||
      facts.lost_before > core::kMaxTime) {
    return absl::InvalidArgumentError("the header holds what no store has; export again");
  }
  if (const auto broken = core::BrokenRule(MakeImportMark(facts, false)); !broken.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header holds what no store has; export again: ", std::string(broken)));
  }
  if (facts.retired && !plan_.of_retired_store) {
    return absl::FailedPreconditionError(absl::StrCat(
        "these records were exported of a store that had been moved to ", facts.retired->moved_to,
        " by then, so that what was done since is not among them and would be done twice; export "
        "that store, or, only where nobody has served it, import with --of-retired-store"));
  }
  if (now + kMaxImportClockBehind < facts.made) {
    return absl::FailedPreconditionError(
        absl::StrCat("this server's clock is ", (facts.made - now).count(),
                     " ms behind the source's when it exported, and leases would go on for too "
                     "long; set the clock right, and import again"));
  }
  if (absl::Status status = CheckNotRetired(&engine_.engine()); !status.ok()) return status;
  const auto mark = FindImportMark(engine_);
  if (!mark.ok()) return mark.status();
  if (mark->has_value() && !(*mark)->finished) {
    if ((*mark)->facts_digest == DigestOf(facts)) return BeginFilling(/*marked=*/true);
    return absl::FailedPreconditionError(
        "the store holds a part of another export; import that one to its end, or name an empty "
        "store");
  }
  StoreWalk walk(&engine_.engine());
  const auto first = walk.Next();
  if (!first.ok()) return first.status();
  only_compares_ = mark->has_value() || !first->empty();
  return only_compares_ ? absl::OkStatus() : BeginFilling(/*marked=*/false);
}

absl::Status RecordImport::BeginFilling(bool marked) {
  if (marked || plan_.dry_run) return absl::OkStatus();
  return Write({{.key = ImportMarkKey(),
                 .record = std::make_shared<core::Record>(MakeImportMark(plan_.facts, false))}});
}

// --- What comes ----------------------------------------------------------------------------------

absl::Status RecordImport::Take(const RecordChunk& chunk) {
  absl::StatusOr<std::vector<Wanted>> wanted = Check(chunk);
  if (!wanted.ok()) return wanted.status();
  const size_t most = std::max<size_t>(limits_.max_batch_writes, 1);
  for (size_t begin = 0; begin < wanted->size(); begin += most) {
    const auto from = wanted->begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = from + static_cast<std::ptrdiff_t>(std::min(most, wanted->size() - begin));
    if (absl::Status status = Place(std::vector<Wanted>(from, to)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RecordImport::Wanted>> RecordImport::Check(const RecordChunk& chunk) {
  if (chunk.number != next_chunk_ || chunk.records.empty()) {
    return Damaged("a part of the records is missing or out of order");
  }
  ++next_chunk_;
  std::vector<UnpackedRecord> unpacked;
  for (const MovedRecord& moved : chunk.records) {
    std::optional<UnpackedRecord> record = Unpack(moved);
    if (!record.has_value() || IsMarkKey(record->key)) {
      return Damaged("a record is damaged, or of a newer version than this server");
    }
    if (!last_key_.empty() && moved.key <= last_key_) return Damaged("records are out of order");
    last_key_ = moved.key;
    came_.Add(moved, record->record.state);
    unpacked.push_back(*std::move(record));
  }
  if (came_.totals().digest != chunk.digest) return Damaged("records have changed on their way");
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < unpacked.size(); ++i) {
    absl::StatusOr<Wanted> fitting = Fit(chunk.records[i], std::move(unpacked[i]));
    if (!fitting.ok()) return fitting.status();
    wanted.push_back(*std::move(fitting));
  }
  return wanted;
}

// An engine may omit a body that is too large for it by itself: then nobody could say whether the
// store holds what it should.
absl::StatusOr<RecordImport::Wanted> RecordImport::Fit(const MovedRecord& moved,
                                                       UnpackedRecord unpacked) {
  core::Record& record = unpacked.record;
  const bool too_large = moved.bytes.size() + kStoredRecordRoom > limits_.max_value_bytes &&
                         record.response.bytes.present();
  if (too_large && !plan_.omit_large_bodies) {
    conflict_ = unpacked.key;
    return absl::FailedPreconditionError(absl::StrCat(
        "a response of ", record.response.bytes.view().size(),
        " bytes is too large for this store; raise what it takes in one request, or import with "
        "--omit-large-bodies, so that its callers are told to look the answer up"));
  }
  if (too_large) {
    record.response = core::Response{.bytes = core::Blob(), .body_omitted = true};
    ++counts_.bodies_omitted;
  }
  wanted_.Add(too_large ? Pack(unpacked.key, record) : moved, record.state);
  return Wanted{.key = std::move(unpacked.key),
                .record = std::make_shared<core::Record>(std::move(record))};
}

// --- What is written -----------------------------------------------------------------------------

absl::Status RecordImport::Place(const std::vector<Wanted>& batch) {
  const absl::StatusOr<std::vector<GuardedWrite>> missing = Missing(batch);
  if (!missing.ok()) return missing.status();
  counts_.present += batch.size() - missing->size();
  if (only_compares_ && !missing->empty()) return NotEmpty();
  counts_.written += missing->size();
  if (plan_.dry_run || missing->empty()) return absl::OkStatus();
  std::vector<Wanted> absent;
  for (const GuardedWrite& write : *missing) absent.push_back({write.key, write.record});
  return Write(std::move(absent));
}

absl::StatusOr<std::vector<GuardedWrite>> RecordImport::Missing(const std::vector<Wanted>& batch) {
  std::vector<core::Key> keys;
  for (const Wanted& wanted : batch) keys.push_back(wanted.key);
  const absl::StatusOr<ReadResult> read = engine_.Read(keys);
  if (!read.ok()) return read.status();
  std::vector<GuardedWrite> missing;
  for (size_t i = 0; i < batch.size(); ++i) {
    const ReadEntry& entry = read->entries[i];
    if (Holds(entry.stored, *batch[i].record)) continue;
    if (!IsAbsent(entry.stored)) {
      conflict_ = batch[i].key;
      return absl::AlreadyExistsError(
          "the store holds another record of this operation, which was left as it is; import into "
          "an empty store");
    }
    missing.push_back({.key = batch[i].key, .expected = entry.version, .record = batch[i].record});
  }
  return missing;
}

absl::Status RecordImport::Write(std::vector<Wanted> batch) {
  for (int i = 0; i < kMaxWriteTries; ++i) {
    absl::StatusOr<std::vector<GuardedWrite>> missing = Missing(batch);
    if (!missing.ok()) return missing.status();
    if (missing->empty()) return absl::OkStatus();
    // Before the last of the space goes, which would end the engine, or a store that others use.
    if (engine_.engine().pressure().full) {
      return absl::ResourceExhaustedError(
          "the store is almost full; give it more space, and run the same import again");
    }
    const std::vector<WriteOutcome> outcomes = engine_.Commit(*std::move(missing));
    if (std::all_of(outcomes.begin(), outcomes.end(),
                    [](WriteOutcome outcome) { return outcome == WriteOutcome::kCommitted; })) {
      return absl::OkStatus();
    }
  }
  return absl::UnavailableError(
      "the store does not take the records; see its log, stop every other server of it, and run "
      "the import again");
}

// --- Ending --------------------------------------------------------------------------------------

absl::StatusOr<RecordTotals> RecordImport::End(const RecordTotals& promised,
                                               const std::function<bool()>& stopped) {
  if (came_.totals() != promised) return Damaged("the records are not all that were exported");
  if (plan_.dry_run && !only_compares_) return wanted_.totals();
  absl::StatusOr<RecordTotals> stored = ReadTotals(&engine_.engine(), stopped);
  if (!stored.ok()) return stored;
  if (*stored != wanted_.totals()) {
    return absl::AbortedError(
        "the store holds other records than those that were imported; stop every other server of "
        "it, and import into an empty store");
  }
  if (absl::Status status = CheckFloor(); !status.ok()) return status;
  if (absl::Status status = EndMark(); !status.ok()) return status;
  return stored;
}

absl::Status RecordImport::CheckFloor() {
  const absl::StatusOr<ReadResult> read = engine_.Read({ImportMarkKey()});
  if (!read.ok()) return read.status();
  if (read->token_floor >= plan_.facts.token_floor) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the store may give fencing tokens that the source has given; import into an empty store");
}

// Guarded by what is there: an import that is sent again while the first one ends finds the end.
absl::Status RecordImport::EndMark() {
  return ChangeMark(
      engine_, ImportMarkKey(), [this](const core::Stored& stored) -> absl::StatusOr<MarkChange> {
        const auto* record = std::get_if<core::Record>(&stored);
        const std::optional<ImportMark> mark =
            record == nullptr ? std::nullopt : ReadImportMark(*record);
        if (mark.has_value() && !mark->finished) return LastMark();
        const core::Time noted =
            std::max(limits_.lost_before, mark.has_value() ? mark->lost_before : core::Time{});
        if (noted >= plan_.facts.lost_before) return MarkChange();
        return absl::FailedPreconditionError(
            "the source has lost records, which this store does not know; import into an empty "
            "store");
      });
}

core::RecordPtr RecordImport::LastMark() const {
  if (!core::IsSet(plan_.facts.lost_before)) return nullptr;
  return std::make_shared<core::Record>(MakeImportMark(plan_.facts, /*finished=*/true));
}

}  // namespace idempotency::keystore
