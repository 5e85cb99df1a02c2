#include "tests/keystore/core/enumeration.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "keystore/core/command.h"
#include "keystore/core/limits.h"
#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/properties.h"

namespace idempotency::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ReserveCommand Reserve(std::string_view name, std::string_view fingerprint) {
  ReserveCommand command;
  command.attempt_id = DigestOf(name);
  command.owner.worker = name;
  command.fingerprint = FingerprintOf(fingerprint);
  command.lease = seconds(10);
  return command;
}

CompleteCommand Complete(uint64_t token, std::string_view body) {
  CompleteCommand command{.token = token};
  command.response.bytes = Blob(std::string(body));
  command.content = ContentOf(command);
  return command;
}

MarkUnresolvedCommand Mark(uint64_t token, UnresolvedCause cause, bool reconcile_first) {
  MarkUnresolvedCommand command{.token = token, .cause = cause, .reconcile_first = reconcile_first};
  command.content = ContentOf(command);
  return command;
}

ResolveCommand Resolve(Resolution resolution, std::string_view body) {
  ResolveCommand command{.resolution = resolution};
  if (resolution == Resolution::kCompleted) command.response.bytes = Blob(std::string(body));
  command.content = ContentOf(command);
  return command;
}

ReleaseCommand Release(uint64_t token) {
  ReleaseCommand command{.token = token};
  command.content = ContentOf(command);
  return command;
}

void AddOwnersVerbs(uint64_t token, std::vector<Command>& commands) {
  commands.push_back(RenewCommand{.token = token, .lease = seconds(10)});
  commands.push_back(Complete(token, "one"));
  commands.push_back(Complete(token, "two"));
  commands.push_back(Release(token));
  commands.push_back(Mark(token, UnresolvedCause::kTimeout, false));
}

std::vector<Command> ChangesOf(const Stored& stored) {
  std::vector<Command> commands{Reserve("a", "x"), Reserve("b", "x")};
  for (const auto& [later, over] : {std::pair{true, false}, {false, true}}) {
    ReserveCommand command = Reserve("b", "x");
    command.dispatch_later = later;
    command.start_over = over;
    commands.push_back(command);
  }
  if (const auto* record = std::get_if<Record>(&stored)) {
    AddOwnersVerbs(record->token, commands);
    commands.push_back(
        RenewCommand{.token = record->token, .lease = seconds(10), .dispatched = true});
    commands.push_back(Mark(record->token, UnresolvedCause::kOther, true));
    if (!record->ended.empty() && record->ended.front().token < record->token) {
      AddOwnersVerbs(record->ended.front().token, commands);
    }
  }
  commands.push_back(Resolve(Resolution::kCompleted, "one"));
  commands.push_back(Resolve(Resolution::kCompleted, "two"));
  commands.push_back(Resolve(Resolution::kNotExecuted, ""));
  commands.push_back(Resolve(Resolution::kAbandoned, ""));
  commands.push_back(DeleteCommand{});
  commands.push_back(DeleteCommand{.force = true});
  return commands;
}

// What never changes a record that is known.
void AddReads(const Stored& stored, std::vector<Command>& commands) {
  commands.push_back(Reserve("b", "y"));
  ReserveCommand old = Reserve("a", "x");
  old.operation_age = kMaxPolicyDuration;
  commands.push_back(old);
  if (const auto* record = std::get_if<Record>(&stored)) {
    commands.push_back(Complete(record->token + 1, "one"));
  }
  commands.push_back(Complete(0, "one"));
  commands.push_back(GetCommand{FingerprintOf("x")});
  commands.push_back(GetCommand{FingerprintOf("y")});
  commands.push_back(InspectCommand{});
  commands.push_back(ReclaimCommand{});
}

// When time alone changes something, and the last moment before.
std::vector<Time> MomentsOf(const Stored& stored, const Policy& policy) {
  const auto* record = std::get_if<Record>(&stored);
  if (record == nullptr) return {kStart};
  std::vector<Time> moments{record->update_time};
  const auto add = [&](Time time) {
    if (time <= record->update_time) return;
    moments.push_back(time - milliseconds(1));
    moments.push_back(time);
  };
  const std::optional<Record> seen =
      Observe(*record, At(std::max(record->update_time, record->lease_expire_time)));
  if (record->state == State::kPending) add(record->lease_expire_time);
  for (const Record* r : {record, seen.has_value() ? &*seen : nullptr}) {
    if (r == nullptr) continue;
    add(r->response_expire_time);
    add(r->forget_time);
    if (!r->unknown.has_value()) continue;
    add(r->unknown->next_attempt_time);
    add(r->unknown->since + std::max(r->terms.settle, policy.terms.settle));
    if (r->terms.unknown_outcome == UnknownOutcome::kRetrySameKey) {
      add(r->create_time + r->terms.protection_window - seconds(1) + milliseconds(1));
    }
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  return moments;
}

// The moments, and the boundaries also as clocks that differ or are in doubt would have them.
std::vector<Now> NowsOf(const Stored& stored, const Policy& policy, bool uncertain) {
  std::vector<Now> nows;
  for (const Time time : MomentsOf(stored, policy)) nows.push_back(At(time));
  if (!uncertain) return nows;
  const size_t certain = nows.size();
  for (size_t i = 1; i < certain; ++i) {
    if (nows[i].earliest - nows[i - 1].earliest > milliseconds(1)) continue;
    const Time time = nows[i].earliest;  // a boundary: it may have come, and it may not
    nows.push_back(Now{time - milliseconds(1), time, time, false});
    nows.push_back(Now{time, time, time + std::chrono::hours(2), true});
  }
  return nows;
}

class RecordKey {
 public:
  explicit RecordKey(const Record& record) : record_(record) {
    Add(static_cast<int>(record.state));
    Add(record.attempt);
    Add(record.attempt_id.low);
    text_ += Text(record.fingerprint);
    AddTime(record.create_time, record.terms.unknown_outcome == UnknownOutcome::kRetrySameKey);
    const bool open = record.state == State::kPending;
    AddTime(record.acquire_time, open);
    AddTime(record.lease_expire_time, open || LapsedLast());
    Add(record.started);
    Add(record.dispatched);
    Add(static_cast<int>(record.terms.unknown_outcome));
    Add(record.unknown);
    Add(record.earlier);
    Add(static_cast<int>(record.verdict));
    text_ += record.response.bytes.view();
    AddTime(record.response_expire_time, true);
    AddTime(record.forget_time, true);
    Add(static_cast<int>(record.resolution));
    Add(record.resolution_content.low);
    for (const EndedAttempt& ended : record.ended) {
      Add(ended.token == record.token);
      Add(ended.attempt_id.low);
      Add(static_cast<int>(ended.verb));
      Add(ended.content.low);
      Add(ended.evidence);
    }
  }
  std::string str() && { return std::move(text_); }

 private:
  bool LapsedLast() const {
    return !record_.ended.empty() && record_.ended.back().verb == EndVerb::kLapsed;
  }
  void Add(uint64_t value) { text_ += std::to_string(value) + ","; }
  void AddTime(Time time, bool matters) {
    if (matters && IsSet(time)) text_ += std::to_string((time - record_.update_time).count());
    text_ += ',';
  }
  void Add(const std::optional<Unknown>& unknown) {
    if (!unknown.has_value()) return;
    Add(static_cast<int>(unknown->cause));
    Add(unknown->attempt);
    AddTime(unknown->since, true);
    AddTime(std::max(unknown->next_attempt_time, record_.update_time), true);
    Add(unknown->reconcile_first);
  }

  const Record& record_;
  std::string text_;
};

// No decision reads the history; the properties look at the newest few events. Copying all of
// it in every step is what would cost the time.
Record WithNewestEvents(Record record) {
  constexpr std::ptrdiff_t kNewest = 3;
  if (record.history.size() > kNewest) {
    record.history.erase(record.history.begin(), record.history.end() - kNewest);
  }
  return record;
}

}  // namespace

std::vector<NamedPolicy> EnumeratedPolicies() {
  Policy base;
  base.expired_memory = seconds(20);
  base.terms.retention = seconds(20);
  base.terms.settle = seconds(10);
  base.terms.initial_backoff = seconds(5);
  base.terms.max_backoff = seconds(5);
  Policy retry = base;
  retry.terms.unknown_outcome = UnknownOutcome::kRetrySameKey;
  retry.terms.protection_window = seconds(25);
  retry.terms.max_attempts = 2;
  Policy rerun = base;
  rerun.terms.unknown_outcome = UnknownOutcome::kRerun;
  Policy active_run = rerun;
  active_run.terms.retention = Duration::zero();
  active_run.expired_memory = Duration::zero();
  active_run.terms.settle = Duration::zero();
  return {{"RECONCILE_FIRST", base},
          {"RETRY_SAME_KEY", retry},
          {"RERUN", rerun},
          {"RERUN_zero_retention", active_run}};
}

Enumerated Enumerate(StepFunction step, const Policy& policy, int depth) {
  Enumerated result;
  std::unordered_set<std::string> known;
  std::vector<Stored> level{Absent{}};
  for (int i = 0; i < depth; ++i) {
    const bool last = i + 1 == depth;
    std::vector<Stored> next_level;
    for (const Stored& stored : level) {
      const auto* record = std::get_if<Record>(&stored);
      const uint64_t floor = record == nullptr ? 1 : record->token + 1;
      std::vector<Command> commands = ChangesOf(stored);
      if (!last) AddReads(stored, commands);
      const std::vector<Now> nows = NowsOf(stored, policy, !last);
      if (record != nullptr) result.broken = BrokenByTime(*record, nows);
      for (const Now& now : nows) {
        const std::optional<Record> before =
            record == nullptr ? std::nullopt : Observe(*record, now);
        for (const Command& command : commands) {
          if (!result.broken.empty()) return result;
          ++result.steps;
          Decision decision;
          result.broken =
              BrokenProperty(step, stored, before, command, policy, now, floor, &decision);
          if (decision.effect != Effect::kWrite) continue;
          if (!known.insert(RecordKey(*decision.record).str()).second) continue;
          ++result.records;
          if (!last) next_level.push_back(WithNewestEvents(*decision.record));
        }
      }
    }
    level = std::move(next_level);
  }
  return result;
}

}  // namespace idempotency::core
