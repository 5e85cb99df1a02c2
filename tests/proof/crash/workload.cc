#include "tests/proof/crash/workload.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/invariants.h"
#include "keystore/core/names.h"

namespace idempotency::proof {
namespace {

using keystore::Engine;
using keystore::GuardedWrite;
using keystore::ReadEntry;
using keystore::ReadResult;
using keystore::WriteOutcome;

constexpr core::Duration kLease = std::chrono::hours(1);

// Both engines here answer before they return.
absl::StatusOr<ReadResult> Read(Engine& engine, std::vector<core::Key> keys) {
  absl::StatusOr<ReadResult> result;
  engine.Read(std::move(keys), [&](absl::StatusOr<ReadResult> got) { result = std::move(got); });
  return result;
}

std::vector<WriteOutcome> Write(Engine& engine, std::vector<GuardedWrite> writes) {
  std::vector<WriteOutcome> outcomes;
  engine.Commit(std::move(writes),
                [&](std::vector<WriteOutcome> got) { outcomes = std::move(got); });
  return outcomes;
}

bool Is(const core::Stored& stored, const core::RecordPtr& record) {
  if (record == nullptr) return std::holds_alternative<core::Absent>(stored);
  const auto* found = std::get_if<core::Record>(&stored);
  return found != nullptr && *found == *record;
}

std::string Text(const core::Record& record) {
  return std::string(core::Name(record.state)) + " token " + std::to_string(record.token) +
         " change " + std::to_string(record.changes);
}

std::string Text(const core::Stored& stored) {
  if (const auto* record = std::get_if<core::Record>(&stored)) return Text(*record);
  return std::holds_alternative<core::Absent>(stored) ? "nothing" : "unreadable bytes";
}

std::string Text(const core::RecordPtr& record) {
  return record == nullptr ? "nothing" : Text(*record);
}

// A scan finds exactly what the reads have found.
std::string CheckScan(Engine& engine, size_t stored, Tolerance tolerance) {
  size_t seen = 0;
  std::string resume;
  do {
    absl::StatusOr<keystore::ScanResult> page;
    engine.Scan({}, 100, std::move(resume),
                [&](absl::StatusOr<keystore::ScanResult> got) { page = std::move(got); });
    if (!page.ok()) {
      const bool told = tolerance.unreadable && absl::IsDataLoss(page.status());
      return told ? "" : "cannot be scanned: " + std::string(page.status().message());
    }
    seen += page->entries.size();
    resume = std::move(page->resume_key);
  } while (!resume.empty());
  if (seen == stored) return {};
  return "a scan finds " + std::to_string(seen) + " records of " + std::to_string(stored);
}

}  // namespace

Workload::Workload(uint64_t seed, WorkloadOptions options) : options_(options), random_(seed) {
  policy_.terms.settle = core::Duration::zero();
  for (size_t i = 0; i < options_.keys; ++i) {
    Known known;
    known.key = {.name_space = "pay", .scope = "acme", .key = "key-" + std::to_string(i)};
    known.acknowledged.push_back(Fact{});
    keys_.push_back(std::move(known));
  }
}

// --- Committing
// --------------------------------------------------------------------------------------

core::ReserveCommand Workload::DrawReserve() {
  core::ReserveCommand command;
  command.fingerprint = {.algorithm = "sha256/bytes-1", .digest = std::string(32, 'f')};
  command.attempt_id = {.high = random_.Next(), .low = 1};
  command.lease = kLease;
  command.owner.worker = "worker-" + std::to_string(random_.Below(8));
  command.dispatch_later = random_.OneIn(4);
  return command;
}

core::Response Workload::DrawResponse() {
  std::string body(random_.Below(options_.max_body_bytes + 1), '\0');
  for (char& byte : body) byte = static_cast<char>(random_.Next());
  return {.bytes = core::Blob(std::move(body))};
}

core::Command Workload::DrawOwners(const core::Record& record) {
  const core::Digest content{.high = random_.Next(), .low = 2};
  switch (record.state == core::State::kPending ? random_.Below(6) : 0) {
    case 0:
    case 1:
    case 2:
      return core::CompleteCommand{
          .token = record.token, .response = DrawResponse(), .content = content};
    case 3:
      return core::ReleaseCommand{.token = record.token, .content = content};
    case 4:
      return core::MarkUnresolvedCommand{
          .token = record.token, .cause = core::UnresolvedCause::kTimeout, .content = content};
    default:
      return core::RenewCommand{
          .token = record.token, .lease = 2 * kLease, .progress = "step", .dispatched = true};
  }
}

core::Command Workload::Draw(const core::Stored& stored) {
  const auto* record = std::get_if<core::Record>(&stored);
  if (record == nullptr || record->state == core::State::kFreed) return DrawReserve();
  if (record->state == core::State::kComplete) return core::DeleteCommand{.actor = "operator"};
  if (record->state == core::State::kUnresolved && random_.OneIn(2)) {
    return core::ResolveCommand{.resolution = random_.OneIn(2) ? core::Resolution::kNotExecuted
                                                               : core::Resolution::kCompleted,
                                .response = DrawResponse(),
                                .actor = "operator",
                                .content = {.high = random_.Next(), .low = 3}};
  }
  return DrawOwners(*record);
}

std::optional<GuardedWrite> Workload::DrawWrite(const Known& known, const ReadEntry& entry,
                                                uint64_t* token_floor) {
  core::Decision decision =
      core::Step(entry.stored, Draw(entry.stored), policy_, now(), *token_floor);
  if (decision.effect != core::Effect::kWrite) return std::nullopt;
  if (decision.record->token >= *token_floor) {
    if (decision.record->token <= newest_token_) broken_ = "a token was given twice";
    newest_token_ = std::max(newest_token_, decision.record->token);
    *token_floor = newest_token_ + 1;
  }
  return GuardedWrite{
      .key = known.key, .expected = entry.version, .record = std::move(decision.record)};
}

bool Workload::Commit(Engine& engine) {
  std::set<size_t> drawn;
  const size_t wanted = 1 + random_.Below(options_.max_writes);
  while (drawn.size() < wanted) drawn.insert(random_.Below(keys_.size()));
  std::vector<core::Key> keys;
  for (const size_t i : drawn) keys.push_back(keys_[i].key);
  const absl::StatusOr<ReadResult> read = Read(engine, std::move(keys));
  if (!read.ok()) return false;
  ++commits_;
  uint64_t token_floor = read->token_floor;
  std::vector<GuardedWrite> writes;
  std::vector<Known*> written;
  size_t entry = 0;
  for (const size_t i : drawn) {
    // What is shown is durable, and so it is what was acknowledged.
    if (!Is(read->entries[entry].stored, keys_[i].acknowledged.back().record)) {
      broken_ = keys_[i].key.key + " is read as " + Text(read->entries[entry].stored);
    }
    auto write = DrawWrite(keys_[i], read->entries[entry++], &token_floor);
    ++operations_;
    if (!write.has_value()) continue;
    writes.push_back(*std::move(write));
    written.push_back(&keys_[i]);
  }
  if (writes.empty()) return true;
  const std::vector<WriteOutcome> outcomes = Write(engine, writes);
  const bool known = std::all_of(outcomes.begin(), outcomes.end(), [](WriteOutcome outcome) {
    return outcome == WriteOutcome::kCommitted;
  });
  for (size_t i = 0; i < writes.size(); ++i) {
    if (known) {
      written[i]->acknowledged.push_back({.record = writes[i].record, .commit = commits_});
    } else {
      written[i]->unknown = true;
      written[i]->perhaps = writes[i].record;
    }
  }
  return known;
}

void Workload::Promised() {
  for (Known& known : keys_) {
    known.acknowledged.erase(known.acknowledged.begin(), known.acknowledged.end() - 1);
    known.acknowledged.front().commit = 0;
  }
}

// --- Checking
// ------------------------------------------------------------------------------------------

std::string Workload::CheckOne(const Known& known, const core::Stored& stored, Tolerance tolerance,
                               Span* span) const {
  if (std::holds_alternative<core::Unreadable>(stored) && tolerance.unreadable) return {};
  if (known.unknown && Is(stored, known.perhaps)) {
    span->first = std::max(span->first, commits_);
    return {};
  }
  const std::vector<Fact>& facts = known.acknowledged;
  const size_t oldest = tolerance.since_promised ? 0 : facts.size() - 1;
  for (size_t i = facts.size(); i > oldest; --i) {
    if (!Is(stored, facts[i - 1].record)) continue;
    span->first = std::max(span->first, facts[i - 1].commit);
    if (i < facts.size()) span->last = std::min(span->last, facts[i].commit - 1);
    return {};
  }
  return known.key.key + " is " + Text(stored) + " where " + Text(facts.back().record) +
         " was acknowledged" +
         (known.unknown ? " and " + Text(known.perhaps) + " may have been written" : "");
}

std::string Workload::Settle(const std::vector<core::Stored>& found) {
  size_t written = 0;
  size_t unknown = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (!keys_[i].unknown) continue;
    ++unknown;
    if (!Is(found[i], keys_[i].perhaps)) continue;
    ++written;
    keys_[i].acknowledged.push_back({.record = keys_[i].perhaps, .commit = commits_});
  }
  for (Known& known : keys_) {
    known.unknown = false;
    known.perhaps = nullptr;
  }
  return written == 0 || written == unknown ? "" : "a commit was written in part";
}

std::string Workload::Check(Engine& engine, Tolerance tolerance) {
  if (!broken_.empty()) return broken_;
  std::vector<core::Key> keys;
  for (const Known& known : keys_) keys.push_back(known.key);
  const absl::StatusOr<ReadResult> read = Read(engine, std::move(keys));
  if (!read.ok()) return "cannot be read: " + std::string(read.status().message());
  if (read->token_floor <= newest_token_) return "the token floor has fallen";
  std::vector<core::Stored> found;
  Span span;
  for (size_t i = 0; i < keys_.size(); ++i) {
    found.push_back(read->entries[i].stored);
    std::string wrong = CheckOne(keys_[i], found[i], tolerance, &span);
    if (!wrong.empty()) return wrong;
  }
  const auto stored = std::count_if(found.begin(), found.end(), [](const core::Stored& one) {
    return !std::holds_alternative<core::Absent>(one);
  });
  std::string wrong = CheckScan(engine, static_cast<size_t>(stored), tolerance);
  if (!wrong.empty()) return wrong;
  if (span.first > span.last) return "what is there was never there at any one time";
  return tolerance.since_promised ? "" : Settle(found);
}

std::string Workload::CheckAccepted(Engine& engine) const {
  std::vector<core::Key> keys;
  for (const Known& known : keys_) keys.push_back(known.key);
  const absl::StatusOr<ReadResult> read = Read(engine, std::move(keys));
  if (!read.ok()) return {};  // damaged, and it says so
  if (read->token_floor <= newest_token_) return "the token floor has fallen";
  if (!core::IsSet(engine.traits().lost_before)) return "the loss is not remembered";
  for (size_t i = 0; i < keys_.size(); ++i) {
    const auto* record = std::get_if<core::Record>(&read->entries[i].stored);
    if (record == nullptr) continue;
    if (record->state == core::State::kPending) return keys_[i].key.key + " is still pending";
    if (!core::BrokenRule(*record).empty()) return keys_[i].key.key + " breaks a rule";
  }
  return {};
}

}  // namespace idempotency::proof
