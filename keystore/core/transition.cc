// The state machine, in the order of the tables in keystore/README.md:
//
//   1. Reserve, row by row            ReserveAbsent .. Reserve
//   2. the owner's verbs, by column   ColumnOf, Renew, Complete, Release, MarkUnresolved
//   3. reading and operating          Get, Inspect, Resolve, Delete, Reclaim
//   4. Step
//
// Every function takes the record as observed now, and returns the whole decision.
#include "keystore/core/transition.h"

#include <algorithm>
#include <utility>

#include "keystore/core/grant.h"
#include "keystore/core/limits.h"
#include "keystore/core/names.h"
#include "keystore/core/record_edit.h"

namespace idempotency::core {
namespace {

// --- Decisions -------------------------------------------------------------------------------

RecordPtr Share(Record record) { return std::make_shared<const Record>(std::move(record)); }

Decision Refuse(Reason reason, std::string_view field = {},
                std::optional<Duration> retry_after = std::nullopt) {
  return Decision{.answer = Refusal{.reason = reason, .field = field, .retry_after = retry_after}};
}

Decision Keep(Answer answer) { return Decision{.answer = std::move(answer)}; }

Decision Write(Answer answer, RecordPtr record) {
  return Decision{
      .answer = std::move(answer), .effect = Effect::kWrite, .record = std::move(record)};
}

// --- What a Reserve would be told -----------------------------------------------------------

struct Advice {
  NextStep next_step = NextStep::kReconcileFirst;
  std::optional<Duration> retry_after;
};

// Rows 6 and 7. `reveal`: the caller may see the answer.
NextStep AdviseEnded(const Record& record, bool reveal) {
  if (record.verdict == Verdict::kAbandoned) return NextStep::kStop;
  if (record.state == State::kExpired || !reveal) return NextStep::kLookUpAnswer;
  if (record.response.body_omitted) return NextStep::kLookUpAnswer;
  // An operator knew that it happened, and not what was answered.
  const bool answer_unknown =
      record.resolution == Resolution::kCompleted && !record.response.bytes.present();
  return answer_unknown ? NextStep::kLookUpAnswer : NextStep::kUseResponse;
}

// Row 5: when to ask again while somebody holds the lease.
Duration InProgressRetryAfter(const Record& record, const Now& now) {
  const Duration left = Remaining(record.lease_expire_time, now.earliest);
  return std::min(left, kMaxInProgressRetryAfter);
}

// Rows 9 and 10. Where an attempt is granted at once it takes a Reserve of its own.
Advice AdviseUnresolved(const Grant& grant, const Now& now) {
  switch (grant.when) {
    case Grant::When::kNow:
      return {NextStep::kReserveAgain, Duration::zero()};
    case Grant::When::kLater:
      return {NextStep::kReserveAgain, Remaining(grant.at, now.earliest)};
    case Grant::When::kNever:
      return {NextStep::kReconcileFirst, std::nullopt};
  }
  return {NextStep::kReconcileFirst, std::nullopt};
}

Advice Advise(const Record& record, bool reveal, const Policy& policy, const Now& now) {
  switch (record.state) {
    case State::kPending:
      return {NextStep::kReserveAgain, InProgressRetryAfter(record, now)};
    case State::kUnresolved: {
      const Grant grant = AssessGrant(record, policy.terms, now);
      if (grant.when == Grant::When::kNow) return {NextStep::kProceed, std::nullopt};
      return AdviseUnresolved(grant, now);
    }
    case State::kComplete:
    case State::kExpired:
      return {AdviseEnded(record, reveal), std::nullopt};
    case State::kFreed:
      return {NextStep::kProceed, std::nullopt};
  }
  return {};
}

// --- 1. Reserve ------------------------------------------------------------------------------

// Row 3 asks this. A missing fingerprint is not compared where the namespace makes it optional.
bool SameRequest(const Record& record, const Fingerprint& given, const Policy& policy) {
  if (policy.fingerprint_optional && (!record.fingerprint.given() || !given.given())) return true;
  return record.fingerprint == given;
}

// The answer is shown only to a caller who has shown the request it belongs to.
bool Reveals(const Record& record, const Fingerprint& given) {
  return !record.fingerprint.given() || record.fingerprint == given;
}

// Row 3: where only the algorithm differs nobody can tell whether the requests do, so the
// caller must not be sent away to a key of its own.
NextStep AdviseMismatch(const Record& record, const Fingerprint& given) {
  const bool open = record.state == State::kPending || record.state == State::kUnresolved;
  const bool comparable = record.fingerprint.given() && given.given() &&
                          record.fingerprint.algorithm == given.algorithm;
  return open || !comparable ? NextStep::kSettleOtherFirst : NextStep::kUseOwnKey;
}

Lease LeaseOf(const Record& record) {
  return Lease{.token = record.token,
               .expire_time = record.lease_expire_time,
               .attempt = record.attempt,
               .progress = record.progress};
}

Decision AnswerReserve(ReserveOutcome outcome, NextStep next_step, Record record, bool reveal,
                       std::optional<Duration> retry_after = std::nullopt) {
  return Keep(ReserveAnswer{.outcome = outcome,
                            .next_step = next_step,
                            .operation = Share(std::move(record)),
                            .reveal = reveal,
                            .retry_after = retry_after});
}

// Rows 8, 12 and 14: `record` already says which attempt this is and what it goes back to.
Decision Acquire(Record record, const ReserveCommand& command, const Policy& policy, const Now& now,
                 Time lease_limit, uint64_t token_floor) {
  const uint64_t token = std::max(token_floor, record.token + 1);
  // Two to the 53 acquisitions: the store is used up, and a repeated token would be worse.
  if (token > kMaxFencingToken) return Refuse(Reason::kStoreFull);
  const Time at = now.latest;
  record.state = State::kPending;
  record.token = token;
  record.attempt_id = command.attempt_id;
  record.owner = command.owner;
  if (!record.fingerprint.given()) record.fingerprint = command.fingerprint;
  if (!command.labels.empty()) record.labels = command.labels;
  record.acquire_time = at;
  record.lease_expire_time = Add(at, std::min(command.lease, policy.max_hold));
  record.started = !command.dispatch_later;
  record.dispatched = record.dispatched || record.started;
  if (IsSet(lease_limit)) {
    record.lease_expire_time = std::min(record.lease_expire_time, lease_limit);
  }
  record.forget_time = Time{};
  record.resolution = Resolution::kNone;
  record.resolution_content = Digest{};
  AddEvent(record, Event{.kind = EventKind::kAcquired,
                         .time = at,
                         .attempt = record.attempt,
                         .actor = record.owner.worker});
  Touch(record, at);
  RecordPtr written = Share(std::move(record));
  return Write(ReserveAnswer{.outcome = ReserveOutcome::kAcquired,
                             .next_step = NextStep::kProceed,
                             .lease = LeaseOf(*written),
                             .operation = written,
                             .reveal = Reveals(*written, command.fingerprint)},
               written);
}

// What the first attempt of a new operation inherits from the last operation under the key:
// its token, its ended attempts, its history and its progress.
Record BeginAgain(Record last, const ReserveCommand& command, const Policy& policy,
                  const Now& now) {
  Record record;
  record.token = last.token;
  record.changes = last.changes;
  record.attempt = 1;
  record.fingerprint = command.fingerprint;
  record.progress = std::move(last.progress);
  record.create_time = now.latest;
  record.terms = policy.terms;
  record.ended = std::move(last.ended);
  record.history = std::move(last.history);
  return record;
}

// What the namespace remembers of a key at the least, counted from its completion.
Duration Memory(const Policy& policy) {
  if (policy.terms.retention == Duration::zero()) return kFreedMemory;
  return policy.terms.retention + policy.expired_memory;
}

// The store has lost records since the operation began: of what happened nothing may be known.
bool PredatesLoss(const ReserveCommand& command, const Policy& policy, const Now& now) {
  return IsSet(policy.lost_before) && command.operation_age.has_value() &&
         *command.operation_age > Remaining(now.latest, policy.lost_before);
}

Decision AnswerTooOld() {
  return Keep(
      ReserveAnswer{.outcome = ReserveOutcome::kTooOld, .next_step = NextStep::kReconcileFirst});
}

Decision ReserveAbsent(const ReserveCommand& command, const Policy& policy, const Now& now,
                       uint64_t token_floor) {
  // Row 2: what is wrong with the key or its namespace is wrong at any age.
  if (command.refuse_new == Reason::kInvalidField) return Refuse(Reason::kInvalidField, "id.key");
  if (command.refuse_new == Reason::kNamespaceNotFound) {
    return Refuse(Reason::kNamespaceNotFound, "id.namespace");
  }
  // Row 13: it may have ended and been forgotten since. Never a guess.
  const bool forgotten =
      command.operation_age.has_value() && *command.operation_age > Memory(policy);
  const bool too_old = forgotten || PredatesLoss(command, policy, now);
  if (too_old && !command.start_over) return AnswerTooOld();
  // Row 14.
  if (command.refuse_new != Reason::kNone) {
    return Refuse(command.refuse_new, {}, kOverloadRetryAfter);
  }
  return Acquire(BeginAgain(Record{}, command, policy, now), command, policy, now, Time{},
                 token_floor);
}

Decision ReservePending(Record record, const ReserveCommand& command, const Now& now) {
  const bool reveal = Reveals(record, command.fingerprint);
  // Row 4: the holder is dead as soon as its end may have come.
  if (record.attempt_id == command.attempt_id && now.latest < record.lease_expire_time) {
    Lease lease = LeaseOf(record);
    return Keep(ReserveAnswer{.outcome = ReserveOutcome::kAlreadyHeld,
                              .next_step = NextStep::kProceedUnlessStarted,
                              .lease = std::move(lease),
                              .operation = Share(std::move(record)),
                              .reveal = reveal});
  }
  // Row 5. The shell may let the caller wait instead.
  const Duration retry_after = InProgressRetryAfter(record, now);
  return AnswerReserve(ReserveOutcome::kInProgress, NextStep::kReserveAgain, std::move(record),
                       reveal, retry_after);
}

// The dead lease of the caller's own attempt, so that it can still report.
std::optional<Lease> OwnLapsedLease(const Record& record, const Digest& attempt_id) {
  const EndedAttempt* ended = FindEnded(record, record.token);
  if (ended == nullptr || ended->verb != EndVerb::kLapsed || ended->attempt_id != attempt_id) {
    return std::nullopt;
  }
  return Lease{
      .token = record.token, .expire_time = record.lease_expire_time, .attempt = ended->attempt};
}

Decision ReserveUnresolved(Record record, const ReserveCommand& command, const Policy& policy,
                           const Now& now, uint64_t token_floor) {
  const Grant grant = AssessGrant(record, policy.terms, now);
  // Row 8. A retried attempt that does nothing comes back to what is unknown today.
  if (grant.when == Grant::When::kNow && !HasEnded(record, command.attempt_id)) {
    record.earlier = std::exchange(record.unknown, std::nullopt);
    record.attempt += record.attempt < UINT32_MAX ? 1 : 0;
    return Acquire(std::move(record), command, policy, now, grant.lease_limit, token_floor);
  }
  // Rows 9 and 10.
  const Advice advice = AdviseUnresolved(grant, now);
  std::optional<Lease> lease = OwnLapsedLease(record, command.attempt_id);
  const bool reveal = Reveals(record, command.fingerprint);
  return Keep(ReserveAnswer{.outcome = ReserveOutcome::kUnresolved,
                            .next_step = advice.next_step,
                            .lease = std::move(lease),
                            .operation = Share(std::move(record)),
                            .reveal = reveal,
                            .retry_after = advice.retry_after});
}

// Rows 11 and 12: FREED, or EXPIRED with start_over.
Decision ReserveFreed(Record record, const ReserveCommand& command, const Policy& policy,
                      const Now& now, uint64_t token_floor) {
  if (HasEnded(record, command.attempt_id)) return Refuse(Reason::kAttemptFinished, "attempt_id");
  // Row 13 again: what was lost may have come after this record.
  const bool may_be_behind = record.update_time < policy.lost_before;
  if (may_be_behind && PredatesLoss(command, policy, now) && !command.start_over) {
    return AnswerTooOld();
  }
  const bool started_over = record.state == State::kExpired;
  Record next = BeginAgain(std::move(record), command, policy, now);
  if (started_over) {
    AddEvent(next, Event{.kind = EventKind::kStartedOver,
                         .time = now.latest,
                         .attempt = next.attempt,
                         .actor = command.owner.worker});
  }
  return Acquire(std::move(next), command, policy, now, Time{}, token_floor);
}

Decision Reserve(std::optional<Record> record, const ReserveCommand& command, const Policy& policy,
                 const Now& now, uint64_t token_floor) {
  if (!record.has_value()) return ReserveAbsent(command, policy, now, token_floor);
  // Row 3.
  if (record->state != State::kFreed && !SameRequest(*record, command.fingerprint, policy)) {
    const NextStep next_step = AdviseMismatch(*record, command.fingerprint);
    return AnswerReserve(ReserveOutcome::kFingerprintMismatch, next_step, *std::move(record),
                         false);
  }
  switch (record->state) {
    case State::kPending:
      return ReservePending(*std::move(record), command, now);
    case State::kComplete: {  // row 6
      const bool reveal = Reveals(*record, command.fingerprint);
      const NextStep next_step = AdviseEnded(*record, reveal);
      return Keep(ReserveAnswer{.outcome = ReserveOutcome::kCompleted,
                                .next_step = next_step,
                                .operation = Share(*std::move(record)),
                                .reveal = reveal});
    }
    case State::kExpired: {  // row 7
      if (command.start_over) {
        return ReserveFreed(*std::move(record), command, policy, now, token_floor);
      }
      const bool reveal = Reveals(*record, command.fingerprint);
      const NextStep next_step = AdviseEnded(*record, reveal);
      return AnswerReserve(ReserveOutcome::kExpired, next_step, *std::move(record), reveal);
    }
    case State::kUnresolved:
      return ReserveUnresolved(*std::move(record), command, policy, now, token_floor);
    case State::kFreed:
      return ReserveFreed(*std::move(record), command, policy, now, token_floor);
  }
  return Refuse(Reason::kRecordUnreadable);
}

// --- 2. The owner's verbs --------------------------------------------------------------------

// Where the owner of a token stands: the columns of the table.
enum class Column : uint8_t {
  kLive,         // PENDING, and this token holds the lease
  kLapsed,       // nobody has acquired since, freed by the lapse or not
  kMarked,       // marked unresolved by this owner
  kCompleted,    // completed by this token: COMPLETE, EXPIRED, or freed by zero retention
  kSettled,      // resolved as completed or abandoned, or deleted: over the owner's head
  kNotExecuted,  // resolved as not executed, and nobody has acquired since
  kReleased,     // by this owner
  kOlder,        // a newer token was given
};

Column ColumnOf(const Record& record, uint64_t token) {
  if (token < record.token) return Column::kOlder;
  if (record.state == State::kPending) return Column::kLive;
  const EndedAttempt* ended = FindEnded(record, token);
  if (ended != nullptr && ended->verb == EndVerb::kCompleted) return Column::kCompleted;
  switch (record.resolution) {
    case Resolution::kCompleted:
    case Resolution::kAbandoned:
    case Resolution::kDeleted:
      return Column::kSettled;
    case Resolution::kNotExecuted:
      return Column::kNotExecuted;
    case Resolution::kNone:
      break;
  }
  switch (ended == nullptr ? EndVerb::kLapsed : ended->verb) {
    case EndVerb::kReleased:
    case EndVerb::kReleasedUnknown:
      return Column::kReleased;
    case EndVerb::kMarkedUnresolved:
      return Column::kMarked;
    case EndVerb::kCompleted:
    case EndVerb::kLapsed:
      return Column::kLapsed;
  }
  return Column::kLapsed;
}

// The checks before the table that no verb can pass; kNone where the table decides.
Refusal CheckToken(const std::optional<Record>& record, uint64_t token) {
  if (token == 0) return Refusal{.reason = Reason::kInvalidField, .field = "fencing_token"};
  if (!record.has_value()) return Refusal{.reason = Reason::kOperationNotFound};
  if (token > record->token) {
    return Refusal{.reason = Reason::kUnknownFencingToken, .field = "fencing_token"};
  }
  return Refusal{};
}

// The ended attempt of which this message is an exact repeat, or null. It is answered as the
// first one was, superseded or not.
const EndedAttempt* RepeatOf(const Record& record, uint64_t token, EndVerb verb,
                             const Digest& content) {
  const EndedAttempt* ended = FindEnded(record, token);
  const bool same = ended != nullptr && ended->verb == verb && ended->content == content;
  return same ? ended : nullptr;
}

uint32_t AttemptOf(const Record& record, uint64_t token) {
  const EndedAttempt* ended = FindEnded(record, token);
  return ended == nullptr ? record.attempt : ended->attempt;
}

// How far this Renew asks the lease to reach.
Time RenewedUntil(const Record& record, bool started, const RenewCommand& command,
                  const Policy& policy, const Now& now) {
  const Time until =
      std::min(Add(now.latest, command.lease), Add(record.acquire_time, policy.max_hold));
  // A retried attempt that has not started must not start after the provider's protection.
  const Time limit = RetryLeaseLimit(record, policy.terms);
  const bool limited = record.earlier.has_value() && !started && IsSet(limit);
  return limited ? std::min(until, limit) : until;
}

Decision ExtendLease(Record record, const RenewCommand& command, const Policy& policy,
                     const Now& now) {
  const bool starts = command.dispatched && !record.started;
  const Time until = RenewedUntil(record, record.started || starts, command, policy, now);
  const bool news = starts || until > record.lease_expire_time ||
                    (command.progress.has_value() && command.progress != record.progress) ||
                    (command.owner.has_value() && *command.owner != record.owner);
  if (!news) return Keep(RenewAnswer{.lease = LeaseOf(record)});
  if (command.owner.has_value()) record.owner = *command.owner;
  if (command.progress.has_value()) record.progress = command.progress;
  if (starts) {
    record.started = true;
    record.dispatched = true;
    AddEvent(record, Event{.kind = EventKind::kDispatched,
                           .time = now.latest,
                           .attempt = record.attempt,
                           .actor = record.owner.worker});
  }
  record.lease_expire_time = std::max(record.lease_expire_time, until);
  Touch(record, now.latest);
  RecordPtr written = Share(std::move(record));
  return Write(RenewAnswer{.lease = LeaseOf(*written)}, written);
}

Decision Renew(std::optional<Record> record, const RenewCommand& command, const Policy& policy,
               const Now& now) {
  const Refusal refusal = CheckToken(record, command.token);
  if (refusal.reason != Reason::kNone) return Keep(refusal);
  switch (ColumnOf(*record, command.token)) {
    case Column::kLive:
      // The holder is dead as soon as its end may have come.
      if (now.latest >= record->lease_expire_time) return Refuse(Reason::kLeaseLapsed);
      return ExtendLease(*std::move(record), command, policy, now);
    case Column::kLapsed:
    case Column::kMarked:
    case Column::kNotExecuted:
    case Column::kReleased:
      return Refuse(Reason::kLeaseLapsed);
    case Column::kCompleted:
      return Refuse(Reason::kAlreadyComplete);
    case Column::kSettled:
    case Column::kOlder:
      return Refuse(Reason::kStaleFencingToken, "fencing_token");
  }
  return Refuse(Reason::kStaleFencingToken, "fencing_token");
}

struct Ending {
  Verdict verdict;
  const Response& response;
  const std::string& provider_request_id;
  Duration retention;
};

// -> COMPLETE; with zero retention the claim was held only while active, and the key is free.
// What takes the place of an abandoned end is kept at least as long as that would have been.
void End(Record& record, const Ending& ending, const Policy& policy, Time at) {
  const bool replaces = record.verdict != Verdict::kNone;
  const Time remembered = replaces ? record.forget_time : Time{};
  const Duration retention = std::max(std::min(ending.retention, policy.max_retention),
                                      Remaining(record.response_expire_time, at));
  CloseOpen(record);
  record.dispatched = true;
  record.started = true;
  if (!ending.provider_request_id.empty()) {
    record.provider_request_id = ending.provider_request_id;
  }
  if (retention == Duration::zero()) {
    record.progress.reset();
    record.labels.clear();
    if (replaces) {
      record.state = State::kExpired;
      record.verdict = ending.verdict;
      record.response = Response{};
      record.complete_time = at;
      record.response_expire_time = Time{};
    } else {
      Free(record, at, kFreedMemory);
    }
    return;
  }
  record.state = State::kComplete;
  record.verdict = ending.verdict;
  record.response = ending.response;
  record.complete_time = at;
  record.response_expire_time = Add(at, retention);
  record.forget_time =
      std::max(remembered, Add(record.response_expire_time, policy.expired_memory));
}

Decision AcceptCompletion(Record record, const CompleteCommand& command, const Policy& policy,
                          const Now& now) {
  const Time at = now.latest;
  EndAttempt(record, EndVerb::kCompleted, command.content);
  record.attempt = AttemptOf(record, record.token);
  // The owner's truth replaces what an operator assumed.
  record.resolution = Resolution::kNone;
  record.resolution_content = Digest{};
  const Duration retention =
      std::max(policy.terms.retention, command.retention.value_or(Duration::zero()));
  End(record, Ending{command.verdict, command.response, command.provider_request_id, retention},
      policy, at);
  AddEvent(record, Event{.kind = EventKind::kCompleted,
                         .time = at,
                         .attempt = record.attempt,
                         .actor = record.owner.worker,
                         .provider_request_id = command.provider_request_id});
  Touch(record, at);
  RecordPtr written = Share(std::move(record));
  return Write(CompleteAnswer{.operation = written}, written);
}

// A completion that comes after somebody else acquired or settled the operation: refused,
// and kept as evidence, once a token, since the effect may have happened twice.
Decision RefuseLateCompletion(Record record, const CompleteCommand& command, const Now& now) {
  const Refusal refusal{
      .reason = Reason::kStaleFencingToken, .field = "fencing_token", .late_completion = true};
  const EndedAttempt* ended = FindEnded(record, command.token);
  // An attempt older than those remembered cannot be told from its own repeats.
  if (ended == nullptr || ended->evidence) return Keep(refusal);
  AddEvent(record, Event{.kind = EventKind::kLateCompletion,
                         .time = now.latest,
                         .attempt = ended->attempt,
                         .provider_request_id = command.provider_request_id});
  NoteEvidence(record, command.token);
  Touch(record, now.latest);
  return Write(refusal, Share(std::move(record)));
}

Decision Complete(std::optional<Record> record, const CompleteCommand& command,
                  const Policy& policy, const Now& now) {
  const Refusal refusal = CheckToken(record, command.token);
  if (refusal.reason != Reason::kNone) return Keep(refusal);
  if (RepeatOf(*record, command.token, EndVerb::kCompleted, command.content) != nullptr) {
    return Keep(CompleteAnswer{.operation = Share(*std::move(record)), .already_complete = true});
  }
  switch (ColumnOf(*record, command.token)) {
    case Column::kLive:
    case Column::kLapsed:
    case Column::kMarked:
    case Column::kNotExecuted:
      return AcceptCompletion(*std::move(record), command, policy, now);
    case Column::kCompleted:
      return Refuse(Reason::kAlreadyComplete);
    case Column::kReleased:
      return Refuse(Reason::kAttemptFinished);
    case Column::kSettled:
    case Column::kOlder:
      return RefuseLateCompletion(*std::move(record), command, now);
  }
  return Refuse(Reason::kStaleFencingToken, "fencing_token");
}

// The owner is certain that this attempt did nothing. An earlier attempt may have.
Decision AcceptRelease(Record record, const ReleaseCommand& command, const Now& now) {
  const Time at = now.latest;
  const uint32_t attempt = AttemptOf(record, record.token);
  const bool earlier_unknown = record.earlier.has_value();
  EndAttempt(record, earlier_unknown ? EndVerb::kReleasedUnknown : EndVerb::kReleased,
             command.content);
  if (earlier_unknown) {
    ReturnToEarlier(record, at);
  } else {
    CloseOpen(record);
    Free(record, at, kFreedMemory);
  }
  AddEvent(record, Event{.kind = EventKind::kReleased,
                         .time = at,
                         .attempt = attempt,
                         .actor = record.owner.worker,
                         .detail = command.detail});
  Touch(record, at);
  RecordPtr written = Share(std::move(record));
  return Write(ReleaseAnswer{.state = written->state}, written);
}

State StateAfterRelease(EndVerb verb) {
  return verb == EndVerb::kReleasedUnknown ? State::kUnresolved : State::kFreed;
}

Decision Release(std::optional<Record> record, const ReleaseCommand& command, const Now& now) {
  const Refusal refusal = CheckToken(record, command.token);
  if (refusal.reason != Reason::kNone) return Keep(refusal);
  for (const EndVerb verb : {EndVerb::kReleased, EndVerb::kReleasedUnknown}) {
    if (RepeatOf(*record, command.token, verb, command.content) != nullptr) {
      return Keep(ReleaseAnswer{.state = StateAfterRelease(verb)});
    }
  }
  switch (ColumnOf(*record, command.token)) {
    case Column::kLive:
    case Column::kLapsed:
      return AcceptRelease(*std::move(record), command, now);
    case Column::kMarked:
      return Refuse(Reason::kOutcomeUnknown);
    case Column::kCompleted:
      return Refuse(Reason::kAlreadyComplete);
    case Column::kReleased:
      return Keep(ReleaseAnswer{.state = record->state});
    case Column::kSettled:
    case Column::kNotExecuted:
    case Column::kOlder:
      return Refuse(Reason::kStaleFencingToken, "fencing_token");
  }
  return Refuse(Reason::kStaleFencingToken, "fencing_token");
}

Answer AnswerMark(RecordPtr record, const Policy& policy, const Now& now) {
  // The marker holds nothing any more: where an attempt is granted now, it takes a Reserve.
  const Advice advice = record->state == State::kUnresolved
                            ? AdviseUnresolved(AssessGrant(*record, policy.terms, now), now)
                            : Advise(*record, false, policy, now);
  return MarkUnresolvedAnswer{.operation = std::move(record),
                              .next_step = advice.next_step,
                              .retry_after = advice.retry_after};
}

// A live attempt becomes unknown now; one that lapsed has been unknown since its lease ended,
// and its owner's cause replaces LEASE_LAPSED.
Decision AcceptMark(Record record, const MarkUnresolvedCommand& command, const Policy& policy,
                    const Now& now) {
  const Time at = now.latest;
  const uint32_t attempt = AttemptOf(record, record.token);
  const Time since = std::min(at, record.lease_expire_time);
  Unknown unknown{.cause = command.cause,
                  .attempt = attempt,
                  .since = since,
                  .reconcile_first = command.reconcile_first};
  unknown.next_attempt_time =
      std::max(Add(since, Backoff(record.terms, attempt)), Add(at, command.retry_after));
  EndAttempt(record, EndVerb::kMarkedUnresolved, command.content);
  BecomeUnresolved(record, std::move(unknown), at);
  if (!command.provider_request_id.empty()) {
    record.provider_request_id = command.provider_request_id;
  }
  AddEvent(record, Event{.kind = EventKind::kMarkedUnresolved,
                         .time = at,
                         .attempt = attempt,
                         .actor = record.owner.worker,
                         .detail = command.detail,
                         .provider_request_id = command.provider_request_id});
  Touch(record, at);
  RecordPtr written = Share(std::move(record));
  return Write(AnswerMark(written, policy, now), written);
}

Decision MarkUnresolved(std::optional<Record> record, const MarkUnresolvedCommand& command,
                        const Policy& policy, const Now& now) {
  const Refusal refusal = CheckToken(record, command.token);
  if (refusal.reason != Reason::kNone) return Keep(refusal);
  if (RepeatOf(*record, command.token, EndVerb::kMarkedUnresolved, command.content) != nullptr) {
    return Keep(AnswerMark(Share(*std::move(record)), policy, now));
  }
  switch (ColumnOf(*record, command.token)) {
    case Column::kLive:
    case Column::kLapsed:
      return AcceptMark(*std::move(record), command, policy, now);
    case Column::kMarked:
      return Keep(AnswerMark(Share(*std::move(record)), policy, now));
    case Column::kCompleted:
      return Refuse(Reason::kAlreadyComplete);
    case Column::kReleased:
      return Refuse(Reason::kAttemptFinished);
    case Column::kSettled:
    case Column::kNotExecuted:
    case Column::kOlder:
      return Refuse(Reason::kStaleFencingToken, "fencing_token");
  }
  return Refuse(Reason::kStaleFencingToken, "fencing_token");
}

// --- 3. Reading and operating ----------------------------------------------------------------

Decision Get(std::optional<Record> record, const GetCommand& command, const Policy& policy,
             const Now& now) {
  if (!record.has_value()) return Refuse(Reason::kOperationNotFound);
  const bool reveal = Reveals(*record, command.fingerprint);
  // What a Reserve would be told that shows the fingerprint.
  Advice advice = Advise(*record, true, policy, now);
  const bool compared = command.fingerprint.given() && record->state != State::kFreed;
  if (compared && !SameRequest(*record, command.fingerprint, policy)) {
    advice = Advice{AdviseMismatch(*record, command.fingerprint), std::nullopt};
  }
  return Keep(GetAnswer{.operation = Share(*std::move(record)),
                        .next_step = advice.next_step,
                        .retry_after = advice.retry_after,
                        .reveal = reveal});
}

Decision Inspect(std::optional<Record> record, const Policy& policy, const Now& now) {
  if (!record.has_value()) return Refuse(Reason::kOperationNotFound);
  const Advice advice = Advise(*record, true, policy, now);
  return Keep(InspectAnswer{.operation = Share(*std::move(record)),
                            .next_step = advice.next_step,
                            .retry_after = advice.retry_after});
}

bool IsRepeat(const Record& record, const ResolveCommand& command) {
  if (record.resolution != command.resolution) return false;
  return command.resolution != Resolution::kCompleted ||
         record.resolution_content == command.content;
}

std::string Described(const ResolveCommand& command) {
  return std::string(Name(command.resolution)) + ": " + command.reason;
}

Decision Settle(Record record, const ResolveCommand& command, const Policy& policy,
                const Now& now) {
  const Time at = now.latest;
  const uint32_t attempt = record.attempt;
  record.resolution = command.resolution;
  record.resolution_content = command.content;
  if (command.resolution == Resolution::kNotExecuted) {
    CloseOpen(record);
    Free(record, at, std::max(policy.expired_memory, kFreedMemory));
  } else {
    const bool abandoned = command.resolution == Resolution::kAbandoned;
    End(record,
        Ending{abandoned ? Verdict::kAbandoned : command.verdict, command.response,
               command.provider_request_id, policy.terms.retention},
        policy, at);
  }
  AddEvent(record, Event{.kind = EventKind::kResolved,
                         .time = at,
                         .attempt = attempt,
                         .actor = command.actor,
                         .detail = Described(command),
                         .provider_request_id = command.provider_request_id});
  Touch(record, at);
  RecordPtr written = Share(std::move(record));
  return Write(ResolveAnswer{.operation = written}, written);
}

Decision Resolve(std::optional<Record> record, const ResolveCommand& command, const Policy& policy,
                 const Now& now) {
  if (!record.has_value()) return Refuse(Reason::kOperationNotFound);
  // A repeat has moved the etag itself, so it is recognised before the etag is looked at.
  if (IsRepeat(*record, command)) {
    return Keep(ResolveAnswer{.operation = Share(*std::move(record))});
  }
  if (!command.etag.empty() && command.etag != Etag(*record)) return Refuse(Reason::kEtagMismatch);
  if (record->state == State::kPending) {
    return Refuse(Reason::kLeaseLive, {}, Remaining(record->lease_expire_time, now.earliest));
  }
  const bool better_known =
      record->verdict == Verdict::kAbandoned && command.resolution == Resolution::kCompleted;
  if (record->state != State::kUnresolved && !better_known) return Refuse(Reason::kWrongState);
  if (command.resolution == Resolution::kNotExecuted) {
    // The owner's call may still be on its way; the stricter of the two policies counts.
    const Duration settle = std::max(record->terms.settle, policy.terms.settle);
    const Time settled = Add(record->unknown->since, settle);
    if (now.earliest < settled) {
      return Refuse(Reason::kNotSettled, {}, Remaining(settled, now.earliest));
    }
  }
  return Settle(*std::move(record), command, policy, now);
}

// What late messages need, and nothing else.
Record WithoutContent(const Record& record, Time at) {
  Record rest;
  rest.state = State::kFreed;
  rest.token = record.token;
  rest.attempt = record.attempt;
  rest.attempt_id = record.attempt_id;
  rest.changes = record.changes;
  rest.create_time = record.create_time;
  rest.resolution = Resolution::kDeleted;
  rest.ended = record.ended;
  rest.forget_time = Add(at, kFreedMemory);
  Touch(rest, at);
  return rest;
}

Decision Delete(std::optional<Record> record, const DeleteCommand& command, const Now& now) {
  // Also where time has made it absent: the space can be given back.
  if (!record.has_value()) return Decision{.answer = DeleteAnswer{}, .effect = Effect::kErase};
  if (record->resolution == Resolution::kDeleted) return Keep(DeleteAnswer{});
  if (!command.etag.empty() && command.etag != Etag(*record)) return Refuse(Reason::kEtagMismatch);
  if (record->state == State::kPending) {
    return Refuse(Reason::kLeaseLive, {}, Remaining(record->lease_expire_time, now.earliest));
  }
  if (record->state == State::kUnresolved && !command.force) {
    return Refuse(Reason::kWrongState, "force");
  }
  return Write(DeleteAnswer{}, Share(WithoutContent(*record, now.latest)));
}

Decision Reclaim(const std::optional<Record>& record) {
  return Decision{.answer = ReclaimAnswer{},
                  .effect = record.has_value() ? Effect::kKeep : Effect::kErase};
}

// --- 4. Step -----------------------------------------------------------------------------------

Decision Dispatch(std::optional<Record> record, const Command& command, const Policy& policy,
                  const Now& now, uint64_t token_floor) {
  struct Visitor {
    std::optional<Record> record;
    const Policy& policy;
    const Now& now;
    uint64_t token_floor;

    Decision operator()(const ReserveCommand& c) {
      return Reserve(std::move(record), c, policy, now, token_floor);
    }
    Decision operator()(const RenewCommand& c) { return Renew(std::move(record), c, policy, now); }
    Decision operator()(const CompleteCommand& c) {
      return Complete(std::move(record), c, policy, now);
    }
    Decision operator()(const ReleaseCommand& c) { return Release(std::move(record), c, now); }
    Decision operator()(const MarkUnresolvedCommand& c) {
      return MarkUnresolved(std::move(record), c, policy, now);
    }
    Decision operator()(const GetCommand& c) { return Get(std::move(record), c, policy, now); }
    Decision operator()(const InspectCommand&) { return Inspect(std::move(record), policy, now); }
    Decision operator()(const ResolveCommand& c) {
      return Resolve(std::move(record), c, policy, now);
    }
    Decision operator()(const DeleteCommand& c) { return Delete(std::move(record), c, now); }
    Decision operator()(const ReclaimCommand&) { return Reclaim(record); }
  };
  return std::visit(Visitor{std::move(record), policy, now, token_floor}, command);
}

// Reserve says itself whose it is, and what reads has its record in the answer.
bool TellsWhatItMet(const Command& command) {
  return !std::holds_alternative<ReserveCommand>(command) &&
         !std::holds_alternative<GetCommand>(command) &&
         !std::holds_alternative<InspectCommand>(command) &&
         !std::holds_alternative<ReclaimCommand>(command);
}

Met MetOf(const Record& record) {
  return Met{.operation_ref = record.owner.operation_ref,
             .traceparent = record.owner.traceparent,
             .provider_request_id = record.provider_request_id};
}

// For the answers that carry no record.
void TellMet(Met met, Answer& answer) {
  if (auto* refusal = std::get_if<Refusal>(&answer)) refusal->met = std::move(met);
  if (auto* renewed = std::get_if<RenewAnswer>(&answer)) renewed->met = std::move(met);
  if (auto* released = std::get_if<ReleaseAnswer>(&answer)) released->met = std::move(met);
  if (auto* deleted = std::get_if<DeleteAnswer>(&answer)) deleted->met = std::move(met);
}

// What cannot be read is never "new"; only a forced Delete gets past it.
Decision StepUnreadable(const Command& command) {
  const auto* del = std::get_if<DeleteCommand>(&command);
  if (del != nullptr && del->force) {
    return Decision{.answer = DeleteAnswer{}, .effect = Effect::kErase};
  }
  return Refuse(Reason::kRecordUnreadable);
}

}  // namespace

Decision Step(Stored stored, const Command& command, const Policy& policy, const Now& now,
              uint64_t token_floor) {
  if (std::holds_alternative<Unreadable>(stored)) return StepUnreadable(command);
  auto* record = std::get_if<Record>(&stored);
  if (record == nullptr) {
    Decision decision = Dispatch(std::nullopt, command, policy, now, token_floor);
    // Nothing is stored: there is nothing to erase.
    if (decision.effect == Effect::kErase) decision.effect = Effect::kKeep;
    return decision;
  }
  const Now held = NotBefore(now, record->update_time);
  std::optional<Record> observed = Observe(std::move(*record), held);
  Met met = observed && TellsWhatItMet(command) ? MetOf(*observed) : Met{};
  Decision decision = Dispatch(std::move(observed), command, policy, held, token_floor);
  TellMet(std::move(met), decision.answer);
  return decision;
}

std::string Etag(const Record& record) {
  return std::to_string(record.token) + "." + std::to_string(record.changes);
}

Time ProtectionExpireTime(const Record& record) {
  if (record.terms.unknown_outcome != UnknownOutcome::kRetrySameKey) return Time{};
  return Add(record.create_time, record.terms.protection_window);
}

}  // namespace idempotency::core
