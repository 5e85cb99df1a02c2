#include "keystore/engine/transfer/retirement.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "keystore/engine/transfer/import_mark.h"
#include "keystore/engine/transfer/record_export.h"
#include "keystore/engine/transfer/store_mark.h"
#include "keystore/engine/transfer/waiting_engine.h"

namespace idempotency::keystore {
namespace {

constexpr char kRetired[] = "store/retired";
constexpr char kUnreadable[] =
    "the store is retired, and when and by whom cannot be read; start with --transfer=export to "
    "export it, or, only where the move is called off, to take that back with idempotencyctl "
    "retire --undo";

std::string TimeText(core::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                          absl::FromUnixMillis(time.time_since_epoch().count()),
                          absl::UTCTimeZone());
}

// As it is told whoever asks again.
absl::StatusOr<Retirement> Again(const Retirement& stands, const Retirement& wanted) {
  if (stands.digest == wanted.digest) return stands;
  return absl::FailedPreconditionError(absl::StrCat(
      "the store is retired already, of another digest: ", absl::BytesToHexString(stands.digest),
      ", by ", stands.actor, " at ", TimeText(stands.time),
      "; where this is the old store of that move, repeat it with that one"));
}

absl::StatusOr<Retirement> Read(const core::Stored& stored) {
  const auto* record = std::get_if<core::Record>(&stored);
  std::optional<Retirement> retirement =
      record == nullptr ? std::nullopt : ReadRetirementMark(*record);
  if (!retirement.has_value()) return absl::DataLossError(kUnreadable);
  return *std::move(retirement);
}

// What came between the reading and the mark was done by a server that had not seen the mark.
// Nothing comes any more once it was fenced off; the mark stays, since nobody knows whether callers
// were told of what came.
absl::Status SealOff(Engine* engine, const Retirement& stands,
                     const std::function<bool()>& stopped) {
  if (const absl::Status fenced = engine->FenceOthers(); !fenced.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "the store is retired, but whether other servers can still write in it is not known: ",
        fenced.message(), "; run this again"));
  }
  const absl::StatusOr<RecordTotals> totals = ReadTotals(engine, stopped);
  if (!totals.ok()) return totals.status();
  // Somebody may have taken the mark back meanwhile, through another server.
  const auto found = FindRetirement(engine);
  if (!found.ok()) return found.status();
  if (!found->has_value() || (*found)->time != stands.time || (*found)->digest != stands.digest) {
    return absl::AbortedError(
        "the retirement was taken back while the records were read; run this "
        "again where the store is to be retired all the same");
  }
  if (totals->digest == stands.digest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the store is retired, but its records have changed since: they come to ",
      absl::BytesToHexString(totals->digest), " and not to ", absl::BytesToHexString(stands.digest),
      ". A server was running on it, or still is: stop it. What it did is not in the new "
      "store, and would be done twice"));
}

absl::Status CheckDigest(Engine* engine, const Retirement& wanted,
                         const std::function<bool()>& stopped) {
  if (const auto whole = CheckImported(engine); !whole.ok()) return whole.status();
  const absl::StatusOr<RecordTotals> totals = ReadTotals(engine, stopped);
  if (!totals.ok()) return totals.status();
  if (totals->digest == wanted.digest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the store's records come to ", absl::BytesToHexString(totals->digest), " and not to ",
      absl::BytesToHexString(wanted.digest),
      ", so that they are not those that were exported; name the digest that export has printed "
      "of this store, or, where it was served since, export and import again"));
}

}  // namespace

std::string TextOf(const Retirement& retirement) {
  return absl::StrCat("retired since ", TimeText(retirement.time), ", by ", retirement.actor,
                      ": its records were moved to ", retirement.moved_to);
}

core::Key RetirementKey() { return MarkKey("retired"); }

bool WritesMarksAlone(const std::vector<GuardedWrite>& writes) {
  return std::all_of(writes.begin(), writes.end(),
                     [](const GuardedWrite& write) { return IsMarkKey(write.key); });
}

core::Record MakeRetirementMark(const Retirement& retirement) {
  core::Record record = MakeMark(kRetired, retirement.digest, /*token=*/1, retirement.time);
  record.history.push_back({.kind = core::EventKind::kReleased,
                            .time = retirement.time,
                            .attempt = 1,
                            .actor = retirement.actor,
                            .detail = retirement.moved_to,
                            .provider_request_id = {}});
  return record;
}

std::optional<Retirement> ReadRetirementMark(const core::Record& record) {
  if (record.fingerprint.algorithm != kRetired || record.history.empty()) return std::nullopt;
  const core::Event& event = record.history.front();
  return Retirement{.time = event.time,
                    .actor = event.actor,
                    .moved_to = event.detail,
                    .digest = record.fingerprint.digest};
}

absl::StatusOr<std::optional<Retirement>> FindRetirement(Engine* engine) {
  const auto record = FindMark(WaitingEngine(engine), RetirementKey(), kUnreadable);
  if (!record.ok()) return record.status();
  if (!record->has_value()) return std::optional<Retirement>();
  absl::StatusOr<Retirement> retirement = Read(**record);
  if (!retirement.ok()) return retirement.status();
  return std::optional(*std::move(retirement));
}

absl::Status CheckNotRetired(Engine* engine) {
  const auto found = FindRetirement(engine);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the store is ", TextOf(**found),
      ", and what was done since is known only there. Start servers on that store; start this one "
      "with --transfer=export to read or export it, or, only where the move is called off, to take "
      "that back with idempotencyctl retire --undo"));
}

absl::StatusOr<Retirement> Retire(Engine* engine, const Retirement& wanted,
                                  const std::function<bool()>& stopped) {
  const auto found = FindRetirement(engine);
  if (!found.ok()) return found.status();
  if (found->has_value()) {
    absl::StatusOr<Retirement> again = Again(**found, wanted);
    if (!again.ok()) return again;
    if (absl::Status status = SealOff(engine, *again, stopped); !status.ok()) return status;
    return again;
  }
  if (absl::Status status = CheckDigest(engine, wanted, stopped); !status.ok()) return status;
  Retirement stands = wanted;
  const auto put = [&](const core::Stored& stored) -> absl::StatusOr<MarkChange> {
    if (std::holds_alternative<core::Absent>(stored)) {
      return MarkChange(std::make_shared<core::Record>(MakeRetirementMark(wanted)));
    }
    // Somebody else's; or our own, whose answer was lost.
    const absl::StatusOr<Retirement> read = Read(stored);
    if (!read.ok()) return read.status();
    absl::StatusOr<Retirement> same = Again(*read, wanted);
    if (!same.ok()) return same.status();
    stands = *std::move(same);
    return MarkChange();
  };
  const absl::Status noted = ChangeMark(WaitingEngine(engine), RetirementKey(), put);
  if (!noted.ok()) return noted;
  // No server begins any more. One that had begun may have written behind what was read.
  if (absl::Status status = SealOff(engine, stands, stopped); !status.ok()) return status;
  return stands;
}

absl::StatusOr<std::optional<Retirement>> Reinstate(Engine* engine) {
  std::optional<Retirement> stood;
  const auto erase = [&](const core::Stored& stored) -> absl::StatusOr<MarkChange> {
    // Asked again where the answer to our own erasure was lost: what was there then, it was.
    if (std::holds_alternative<core::Absent>(stored)) return MarkChange();
    const absl::StatusOr<Retirement> read = Read(stored);
    stood = read.ok() ? std::optional(*read) : std::nullopt;
    return MarkChange(core::RecordPtr());
  };
  const absl::Status erased = ChangeMark(WaitingEngine(engine), RetirementKey(), erase);
  if (!erased.ok()) return erased;
  return stood;
}

}  // namespace idempotency::keystore
