#include "keystore/engine/transfer/store_mark.h"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/engine/engine.h"

namespace idempotency::keystore {
namespace {

constexpr char kMarkNamespace[] = "\x01idempotency";

}  // namespace

core::Key MarkKey(std::string name) {
  return core::Key{.name_space = kMarkNamespace, .scope = "", .key = std::move(name)};
}

bool IsMarkKey(const core::Key& key) { return key.name_space == kMarkNamespace; }

core::Record MakeMark(std::string says, std::string digest, uint64_t token, core::Time made) {
  core::Record record;
  record.state = core::State::kFreed;
  record.token = token;
  record.attempt = 1;
  record.changes = 1;
  record.create_time = made;
  record.update_time = made;
  record.forget_time = core::kMaxTime;
  record.ended.push_back({.token = token, .attempt = 1, .verb = core::EndVerb::kReleased});
  record.fingerprint = {.algorithm = std::move(says), .digest = std::move(digest)};
  return record;
}

absl::StatusOr<std::optional<core::Record>> FindMark(const WaitingEngine& engine,
                                                     const core::Key& key, const char* unreadable) {
  const absl::StatusOr<ReadResult> read = engine.Read({key});
  if (!read.ok()) return read.status();
  const core::Stored& stored = read->entries.front().stored;
  if (std::holds_alternative<core::Absent>(stored)) return std::optional<core::Record>();
  if (const auto* record = std::get_if<core::Record>(&stored)) return std::optional(*record);
  return absl::DataLossError(unreadable);
}

absl::Status ChangeMark(
    const WaitingEngine& engine, const core::Key& key,
    const std::function<absl::StatusOr<MarkChange>(const core::Stored&)>& decide) {
  for (int i = 0; i < kMaxWriteTries; ++i) {
    const absl::StatusOr<ReadResult> read = engine.Read({key});
    if (!read.ok()) return read.status();
    const ReadEntry& entry = read->entries.front();
    absl::StatusOr<MarkChange> change = decide(entry.stored);
    if (!change.ok()) return change.status();
    if (!change->has_value()) return absl::OkStatus();
    std::vector<GuardedWrite> writes;
    writes.push_back({.key = key, .expected = entry.version, .record = **std::move(change)});
    if (engine.Commit(std::move(writes)).front() == WriteOutcome::kCommitted) {
      return absl::OkStatus();
    }
  }
  return absl::UnavailableError(
      "the store does not take what is to be noted in it; see its log, and run this again");
}

}  // namespace idempotency::keystore
