#include "tests/keystore/core/properties.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"
#include "tests/keystore/core/core_text.h"

namespace idempotency::core {
namespace {

struct Trial {
  const Command& command;
  const Policy& policy;
  Now now;  // as the record holds it
  uint64_t token_floor = 0;
  const std::optional<Record>& before;
  const Decision& decision;
  std::optional<Record> after;  // as observed after a write; else look at `before`

  template <typename T>
  const T* Asked() const {
    return std::get_if<T>(&command);
  }
  template <typename T>
  const T* Answered() const {
    return std::get_if<T>(&decision.answer);
  }
  bool wrote() const { return decision.effect == Effect::kWrite; }
  bool before_is(State state) const { return before.has_value() && before->state == state; }
  bool granted() const {
    return wrote() && (!before.has_value() || decision.record->token != before->token);
  }
};

using Broken = std::string_view;

RecordPtr OperationIn(const Answer& answer) {
  struct Visitor {
    RecordPtr operator()(const Refusal&) { return nullptr; }
    RecordPtr operator()(const ReserveAnswer& a) { return a.operation; }
    RecordPtr operator()(const RenewAnswer&) { return nullptr; }
    RecordPtr operator()(const CompleteAnswer& a) { return a.operation; }
    RecordPtr operator()(const ReleaseAnswer&) { return nullptr; }
    RecordPtr operator()(const MarkUnresolvedAnswer& a) { return a.operation; }
    RecordPtr operator()(const GetAnswer& a) { return a.operation; }
    RecordPtr operator()(const InspectAnswer& a) { return a.operation; }
    RecordPtr operator()(const ResolveAnswer& a) { return a.operation; }
    RecordPtr operator()(const DeleteAnswer&) { return nullptr; }
    RecordPtr operator()(const ReclaimAnswer&) { return nullptr; }
  };
  return std::visit(Visitor{}, answer);
}

// Keeping really keeps, writing writes what is answered, and what is written is whole.
Broken CheckEffect(const Trial& t) {
  if (t.wrote() != (t.decision.record != nullptr)) return "exactly a write carries a record";
  const RecordPtr shown = OperationIn(t.decision.answer);
  if (t.wrote()) {
    if (shown != nullptr && *shown != *t.decision.record) return "what is answered is written";
    const Broken rule = BrokenRule(*t.decision.record);
    if (!rule.empty()) return rule;
    return t.before.has_value() ? BrokenRule(*t.before, *t.decision.record) : Broken();
  }
  if (shown != nullptr && (!t.before.has_value() || *shown != *t.before)) {
    return "an answer without a write shows what is stored";
  }
  if (t.decision.effect == Effect::kErase && t.before.has_value()) {
    return "I10: nothing that is remembered is erased";
  }
  return {};
}

// Whether one set of terms lets an unresolved operation be attempted again.
bool Allows(const Terms& terms, const Record& record, const Now& now) {
  const Unknown& unknown = *record.unknown;
  switch (terms.unknown_outcome) {
    case UnknownOutcome::kRerun:
      return true;
    case UnknownOutcome::kReconcileFirst:
      return false;
    case UnknownOutcome::kRetrySameKey:
      return !unknown.reconcile_first && unknown.attempt < terms.max_attempts &&
             now.earliest >= unknown.next_attempt_time &&
             std::max(now.latest, now.wall) < record.create_time + terms.protection_window;
  }
  return false;
}

// I1: the last event before the grant that says why it may be.
Broken CheckPermission(const Trial& t) {
  const std::vector<Event>& history = t.decision.record->history;
  if (history.empty() || history.back().kind != EventKind::kAcquired) {
    return "I1: a grant is in the history";
  }
  size_t at = history.size() - 1;
  while (at > 0 && history[at - 1].kind == EventKind::kLateCompletion) --at;
  const Event* reason = at == 0 ? nullptr : &history[at - 1];
  const auto was = [&](EventKind kind) { return reason != nullptr && reason->kind == kind; };
  if (!t.before.has_value()) {
    return reason != nullptr ? "I1: a key of which nothing is known has no history" : Broken();
  }
  switch (t.before->state) {
    case State::kPending:
    case State::kComplete:
      return "I1: nobody is granted what is held or complete";
    case State::kExpired:
      if (!t.Asked<ReserveCommand>()->start_over) return "I1: expired, and not started over";
      return was(EventKind::kStartedOver) ? Broken() : "I1: starting over is written down";
    case State::kFreed:
      if (t.before->resolution == Resolution::kDeleted) return {};
      if (was(EventKind::kLeaseLapsed)) {
        return t.before->started ? "I1: a lapse frees only what never started" : Broken();
      }
      return was(EventKind::kReleased) || was(EventKind::kResolved) || was(EventKind::kCompleted)
                 ? Broken()
                 : "I1: a freed key says what has freed it";
    case State::kUnresolved:
      if (t.now.in_doubt) return "I1: no attempt from UNRESOLVED while the clock is in doubt";
      return Allows(t.before->terms, *t.before, t.now) && Allows(t.policy.terms, *t.before, t.now)
                 ? Broken()
                 : "I1: both policies allow another attempt";
  }
  return {};
}

bool IdHasEnded(const Record& record, const Digest& id) {
  return std::any_of(record.ended.begin(), record.ended.end(),
                     [&](const EndedAttempt& ended) { return ended.attempt_id == id; });
}

Broken CheckGrant(const Trial& t) {
  const auto* reserve = t.Asked<ReserveCommand>();
  const auto* answer = t.Answered<ReserveAnswer>();
  const bool acquired = answer != nullptr && answer->outcome == ReserveOutcome::kAcquired;
  if (acquired != t.granted()) return "I1: exactly a grant has a new token and says ACQUIRED";
  if (reserve == nullptr || answer == nullptr) return {};
  if (!acquired && t.decision.effect != Effect::kKeep) return "only a grant changes in Reserve";
  if (answer->outcome == ReserveOutcome::kAlreadyHeld) {
    const bool own = t.before_is(State::kPending) && t.before->attempt_id == reserve->attempt_id;
    if (!own || answer->lease->token != t.before->token) return "ALREADY_HELD is one's own";
  }
  if (!acquired) return {};
  const Record& record = *t.decision.record;
  if (record.token < t.token_floor) return "I2: a token is above all that were committed";
  if (t.before.has_value() && record.token <= t.before->token) return "I2: tokens rise";
  if (answer->lease->token != record.token) return "the lease says the token that is stored";
  if (t.before.has_value() && IdHasEnded(*t.before, reserve->attempt_id)) {
    return "an attempt that has ended is not granted again";
  }
  if (record.lease_expire_time <= t.now.latest) return "a lease is live when it is given";
  const bool again = t.before_is(State::kUnresolved);
  const Time protection_end = record.create_time + t.policy.terms.protection_window;
  if (again && t.policy.terms.unknown_outcome == UnknownOutcome::kRetrySameKey &&
      record.lease_expire_time > protection_end) {
    return "a retried attempt's lease ends with the protection";
  }
  return CheckPermission(t);
}

// I3: what is complete stays as it is until its retention is over.
Broken CheckComplete(const Trial& t) {
  if (!t.before_is(State::kComplete) || !t.wrote()) return {};
  const bool resolves = t.Asked<ResolveCommand>() != nullptr;
  if (t.Asked<DeleteCommand>() != nullptr) return {};
  if (resolves && t.before->verdict == Verdict::kAbandoned) return {};
  if (!t.after.has_value() || t.after->state != State::kComplete) {
    return "I3, I9: an answer does not vanish before its retention is over";
  }
  const Record& a = *t.before;
  const Record& b = *t.after;
  const bool same =
      a.verdict == b.verdict && a.response == b.response && a.complete_time == b.complete_time &&
      a.response_expire_time == b.response_expire_time && a.forget_time == b.forget_time;
  return same ? Broken() : "I3: an answer does not change";
}

// I7: another request gets neither a grant nor a body; nor does one that shows nothing.
Broken CheckMismatch(const Trial& t) {
  if (!t.before.has_value()) return {};
  const Fingerprint& stored = t.before->fingerprint;
  const auto* reserve = t.Asked<ReserveCommand>();
  const auto* reserved = t.Answered<ReserveAnswer>();
  if (reserve != nullptr && reserved != nullptr && t.before->state != State::kFreed) {
    const bool compared = stored.given() && reserve->fingerprint.given();
    const bool differs = compared ? !(stored == reserve->fingerprint)
                                  : !t.policy.fingerprint_optional && stored.given();
    const bool refused = reserved->outcome == ReserveOutcome::kFingerprintMismatch;
    if (differs && !refused) return "I7: another request is refused";
    if (refused && (t.wrote() || reserved->lease.has_value())) return "I7: and gets nothing";
    if (reserved->reveal && stored.given() && !(stored == reserve->fingerprint)) {
      return "I7: no body for another request";
    }
  }
  const auto* get = t.Asked<GetCommand>();
  const auto* got = t.Answered<GetAnswer>();
  if (get != nullptr && got != nullptr && got->reveal && stored.given() &&
      !(stored == get->fingerprint)) {
    return "I7: no body for another request";
  }
  return {};
}

// I9: what has expired is never served, what has not is.
Broken CheckServed(const Trial& t) {
  const RecordPtr shown = OperationIn(t.decision.answer);
  if (shown != nullptr && shown->state == State::kComplete && !t.now.in_doubt &&
      t.now.earliest >= shown->response_expire_time) {
    return "I9: an expired answer is not served";
  }
  if (shown != nullptr && shown->state == State::kExpired && shown->response.bytes.present()) {
    return "I9: an expired answer is gone";
  }
  const auto* reserved = t.Answered<ReserveAnswer>();
  if (reserved == nullptr || reserved->outcome == ReserveOutcome::kFingerprintMismatch) return {};
  if (t.before_is(State::kComplete) != (reserved->outcome == ReserveOutcome::kCompleted)) {
    return "I9: COMPLETED is said of what is complete";
  }
  return {};
}

// The lease: nobody else while it may be live, its holder only while it must be.
Broken CheckHolder(const Trial& t) {
  if (!t.before_is(State::kPending)) return {};
  const bool live = t.now.latest < t.before->lease_expire_time;
  if (t.Asked<ReserveCommand>() != nullptr && t.decision.effect != Effect::kKeep) {
    return "nobody acquires what is held";
  }
  const auto* reserved = t.Answered<ReserveAnswer>();
  if (reserved != nullptr && reserved->outcome == ReserveOutcome::kAlreadyHeld && !live) {
    return "a lease that may have ended is not held";
  }
  if (t.Asked<ResolveCommand>() != nullptr || t.Asked<DeleteCommand>() != nullptr) {
    const auto* refusal = t.Answered<Refusal>();
    if (refusal == nullptr) return "a live lease is not settled by anybody else";
  }
  const auto* renew = t.Asked<RenewCommand>();
  if (renew != nullptr && renew->token == t.before->token) {
    const auto* renewed = t.Answered<RenewAnswer>();
    if (live != (renewed != nullptr)) return "exactly a live lease is renewed";
    if (renewed != nullptr && renewed->lease.expire_time < t.before->lease_expire_time) {
      return "a lease never gets shorter";
    }
  }
  return {};
}

std::optional<uint64_t> TokenOf(const Command& command) {
  struct Visitor {
    std::optional<uint64_t> operator()(const RenewCommand& c) { return c.token; }
    std::optional<uint64_t> operator()(const CompleteCommand& c) { return c.token; }
    std::optional<uint64_t> operator()(const ReleaseCommand& c) { return c.token; }
    std::optional<uint64_t> operator()(const MarkUnresolvedCommand& c) { return c.token; }
    std::optional<uint64_t> operator()(const ReserveCommand&) { return std::nullopt; }
    std::optional<uint64_t> operator()(const GetCommand&) { return std::nullopt; }
    std::optional<uint64_t> operator()(const InspectCommand&) { return std::nullopt; }
    std::optional<uint64_t> operator()(const ResolveCommand&) { return std::nullopt; }
    std::optional<uint64_t> operator()(const DeleteCommand&) { return std::nullopt; }
    std::optional<uint64_t> operator()(const ReclaimCommand&) { return std::nullopt; }
  };
  return std::visit(Visitor{}, command);
}

bool HasEvidence(const Record& record, uint64_t token) {
  return std::any_of(record.ended.begin(), record.ended.end(), [&](const EndedAttempt& ended) {
    return ended.token == token && ended.evidence;
  });
}

// All that a refused late completion may add.
Record WithoutEvidence(Record record) {
  record.history.clear();
  for (EndedAttempt& ended : record.ended) ended.evidence = false;
  record.changes = 0;
  record.update_time = Time{};
  return record;
}

// The owner's verbs: an older token, a settled operation and an unknown token change nothing;
// a late completion leaves its evidence once.
Broken CheckStale(const Trial& t) {
  const std::optional<uint64_t> token = TokenOf(t.command);
  if (!token.has_value() || !t.wrote()) return {};
  if (!t.before.has_value()) return "an owner's verb creates nothing";
  if (*token > t.before->token || *token == 0) return "a token that was never given does nothing";
  const bool settled = t.before->state != State::kPending &&
                       t.before->resolution != Resolution::kNone &&
                       t.before->resolution != Resolution::kNotExecuted;
  if (*token == t.before->token && !settled) return {};
  if (t.Asked<CompleteCommand>() == nullptr) return "a stale token does nothing";
  if (WithoutEvidence(*t.before) != WithoutEvidence(*t.decision.record)) {
    return "a stale token leaves nothing but evidence";
  }
  if (HasEvidence(*t.before, *token)) return "I8: evidence is noted once a token";
  if (!HasEvidence(*t.decision.record, *token)) return "evidence says whose it is";
  return {};
}

// A retried attempt that did nothing does not clear the unknown; an operator settles only
// what can no longer be under way.
Broken CheckUnknown(const Trial& t) {
  if (!t.wrote() || !t.before.has_value()) return {};
  if (t.Asked<ReleaseCommand>() != nullptr && t.before->earlier.has_value()) {
    if (t.decision.record->unknown != t.before->earlier) {
      return "a release does not clear what an earlier attempt left unknown";
    }
  }
  const auto* resolve = t.Asked<ResolveCommand>();
  if (resolve != nullptr && resolve->resolution == Resolution::kNotExecuted) {
    const Duration settle = std::max(t.before->terms.settle, t.policy.terms.settle);
    if (!t.before->unknown.has_value()) return "only what is unknown is settled";
    if (t.now.earliest < t.before->unknown->since + settle) return "not executed: too early";
  }
  const bool closes = t.Asked<CompleteCommand>() != nullptr || resolve != nullptr ||
                      t.Asked<DeleteCommand>() != nullptr || t.granted() ||
                      t.Asked<ReleaseCommand>() != nullptr;
  if (t.before->state == State::kUnresolved && t.decision.record->state != State::kUnresolved &&
      !closes) {
    return "I10: an unknown outcome is closed only by those who know";
  }
  return {};
}

Broken CheckOne(const Trial& t) {
  for (const auto check : {CheckEffect, CheckGrant, CheckComplete, CheckMismatch, CheckServed,
                           CheckHolder, CheckStale, CheckUnknown}) {
    const Broken broken = check(t);
    if (!broken.empty()) return broken;
  }
  return {};
}

// I8: what the same message is answered with when it comes again.
std::string AnswerAgain(const Answer& answer) {
  if (const auto* reserved = std::get_if<ReserveAnswer>(&answer);
      reserved != nullptr && reserved->outcome == ReserveOutcome::kAcquired) {
    ReserveAnswer again = *reserved;
    again.outcome = ReserveOutcome::kAlreadyHeld;
    again.next_step = NextStep::kProceedUnlessStarted;
    return Text(Answer(again));
  }
  if (const auto* completed = std::get_if<CompleteAnswer>(&answer); completed != nullptr) {
    CompleteAnswer again = *completed;
    again.already_complete = true;
    return Text(Answer(again));
  }
  return Text(answer);
}

std::string BrokenByRepeating(StepFunction step, const Trial& t) {
  const Stored next = t.wrote() ? Stored(*t.decision.record) : Stored(Absent{});
  const uint64_t floor =
      t.wrote() ? std::max(t.token_floor, t.decision.record->token + 1) : t.token_floor;
  const Decision again = step(next, t.command, t.policy, t.now, floor);
  if (again.effect != Effect::kKeep) return "I8: a repetition changes nothing";
  const std::string answer = Text(again.answer);
  if (answer == AnswerAgain(t.decision.answer)) return {};
  return "I8: a repetition is answered as it was, and not " + answer;
}

}  // namespace

std::string BrokenProperty(StepFunction step, const Stored& stored,
                           const std::optional<Record>& before, const Command& command,
                           const Policy& policy, const Now& now, uint64_t token_floor,
                           Decision* decision) {
  const auto* record = std::get_if<Record>(&stored);
  *decision = step(stored, command, policy, now, token_floor);
  Trial trial{.command = command,
              .policy = policy,
              .now = record == nullptr ? now : NotBefore(now, record->update_time),
              .token_floor = token_floor,
              .before = before,
              .decision = *decision};
  if (trial.wrote()) trial.after = Observe(*decision->record, now);
  std::string broken(CheckOne(trial));
  // A step that keeps is the same step again: it depends on nothing but its arguments.
  if (broken.empty() && decision->effect != Effect::kKeep) broken = BrokenByRepeating(step, trial);
  if (broken.empty()) return {};
  const std::string after = trial.wrote() ? Text(trial.after) : "as before";
  return broken + "\n  before: " + Text(before) + "\n  " + Text(now) + " " + Text(command) +
         "\n  answer: " + Text(decision->answer) + "\n  after:  " + after + "\n";
}

namespace {

// I6, I9, I10: what may have become of `record`, which is observed as `seen` at `now`.
Broken CheckObserved(const Record& record, const std::optional<Record>& seen, const Now& now) {
  if (seen.has_value() && !BrokenRule(*seen).empty()) return BrokenRule(*seen);
  const bool lapsed = record.state == State::kPending && now.earliest >= record.lease_expire_time;
  if (record.state == State::kPending && !lapsed) {
    return seen == record ? Broken() : "a live lease stays";
  }
  if (lapsed && seen.has_value()) {
    const bool nothing_done = !record.started && !record.earlier.has_value();
    const State expected = nothing_done ? State::kFreed : State::kUnresolved;
    if (seen->state != expected) return "I6: a lapse leaves an unknown, or frees what never began";
    if (!record.started && record.earlier.has_value() && seen->unknown != record.earlier) {
      return "I6: a retried attempt that never began leaves what was unknown";
    }
  }
  const bool forgettable = record.terms.unknown_outcome == UnknownOutcome::kRerun ||
                           (lapsed && !record.started && !record.earlier.has_value());
  const bool open = record.state == State::kPending || record.state == State::kUnresolved;
  if (open && !seen.has_value() && !forgettable) return "I10: an unknown outcome is not forgotten";
  if (!open && !seen.has_value() && (now.in_doubt || now.earliest < record.forget_time)) {
    return "I9: nothing is forgotten early";
  }
  if (!open && seen.has_value() && !now.in_doubt && now.earliest >= record.forget_time) {
    return "what is over is forgotten";
  }
  if (record.state == State::kComplete && seen.has_value()) {
    const bool over = !now.in_doubt && now.earliest >= record.response_expire_time;
    if ((seen->state == State::kComplete) == over) return "I9: an answer lives by its retention";
  }
  return {};
}

bool Follows(const Now& later, const Now& now) {
  return later.earliest >= now.earliest && later.latest >= now.latest &&
         later.in_doubt == now.in_doubt;
}

}  // namespace

std::string BrokenByTime(const Record& record, const std::vector<Now>& moments) {
  for (size_t i = 0; i < moments.size(); ++i) {
    const std::optional<Record> first = Observe(record, moments[i]);
    std::string broken(CheckObserved(record, first, NotBefore(moments[i], record.update_time)));
    for (size_t j = 0; j < moments.size() && broken.empty(); ++j) {
      if (!Follows(moments[j], moments[i])) continue;
      const std::optional<Record> directly = Observe(record, moments[j]);
      const std::optional<Record> twice =
          first.has_value() ? Observe(*first, moments[j]) : std::nullopt;
      if (twice != directly) broken = "observing an observation is observing later";
    }
    if (!broken.empty()) {
      return broken + "\n  record: " + Text(record) + "\n  " + Text(moments[i]) +
             "\n  seen: " + Text(first) + "\n";
    }
  }
  return {};
}

}  // namespace idempotency::core
