#include "keystore/core/invariants.h"

#include <algorithm>

#include "keystore/core/limits.h"
#include "keystore/core/record_edit.h"

namespace idempotency::core {
namespace {

bool InRange(Time time) { return time >= Time{} && time <= kMaxTime; }

bool InRange(const std::optional<Unknown>& unknown) {
  return !unknown.has_value() || (InRange(unknown->since) && InRange(unknown->next_attempt_time));
}

// So that no arithmetic on a record overflows, whatever its bytes were.
std::string_view BrokenTimeRule(const Record& record) {
  for (const Time time :
       {record.create_time, record.update_time, record.acquire_time, record.lease_expire_time,
        record.complete_time, record.response_expire_time, record.forget_time}) {
    if (!InRange(time)) return "times lie between the epoch and kMaxTime";
  }
  if (!InRange(record.unknown) || !InRange(record.earlier) ||
      !std::all_of(record.history.begin(), record.history.end(),
                   [](const Event& event) { return InRange(event.time); })) {
    return "times lie between the epoch and kMaxTime";
  }
  const Terms& terms = record.terms;
  for (const Duration span : {terms.protection_window, terms.initial_backoff, terms.max_backoff,
                              terms.settle, terms.retention}) {
    if (span < Duration::zero() || span > kMaxPolicyDuration) {
      return "durations lie between zero and the longest that a policy may set";
    }
  }
  return {};
}

std::string_view BrokenEndedRule(const Record& record) {
  if (record.ended.size() > kMaxEndedAttempts) return "too many ended attempts";
  uint64_t last = 0;
  for (const EndedAttempt& ended : record.ended) {
    if (ended.token <= last) return "ended attempts must have rising tokens";
    if (ended.token > record.token) return "an ended attempt is newer than the newest token";
    last = ended.token;
  }
  const bool newest_ended = last == record.token;
  if (newest_ended == (record.state == State::kPending)) {
    return "exactly the newest attempt of an operation that is not pending has ended";
  }
  return {};
}

std::string_view BrokenOpenRule(const Record& record) {
  const bool pending = record.state == State::kPending;
  const bool unresolved = record.state == State::kUnresolved;
  if (unresolved != record.unknown.has_value()) return "exactly an unresolved operation is unknown";
  if (record.earlier.has_value() && !pending && !unresolved) {
    return "only an open operation has an earlier unknown";
  }
  // The earlier one, too: a retried attempt that did nothing leaves the operation to it.
  for (const std::optional<Unknown>& unknown : {record.unknown, record.earlier}) {
    if (!unknown.has_value()) continue;
    if (unknown->cause == UnresolvedCause::kNone) return "an unresolved operation has a cause";
    if (unknown->attempt == 0) return "attempts count from 1";
  }
  if (pending && !IsSet(record.lease_expire_time)) return "a pending operation has a lease";
  if (pending && record.resolution != Resolution::kNone) {
    return "a pending operation has not been resolved";
  }
  if (record.started && !record.dispatched) return "a started attempt has been dispatched";
  return {};
}

std::string_view BrokenEndRule(const Record& record) {
  const bool ended = record.state == State::kComplete || record.state == State::kExpired;
  if (ended != (record.verdict != Verdict::kNone))
    return "exactly an ended operation has a verdict";
  if (ended != IsSet(record.complete_time)) return "exactly an ended operation has a complete_time";
  const bool complete = record.state == State::kComplete;
  if (complete != IsSet(record.response_expire_time)) {
    return "exactly a complete operation has a response_expire_time";
  }
  if (!complete && record.response != Response{}) return "only a complete operation has a response";
  if ((ended || record.state == State::kFreed) && !IsSet(record.forget_time)) {
    return "an ended or freed operation has a forget_time";
  }
  if (complete && record.forget_time < record.response_expire_time) {
    return "an operation is not forgotten before its response expires";
  }
  if (record.state == State::kPending && IsSet(record.forget_time)) {
    return "a pending operation has no forget_time";
  }
  return {};
}

}  // namespace

std::string_view BrokenRule(const Record& record) {
  if (record.token == 0 || record.token > kMaxFencingToken) return "a token is 1 .. 2^53 - 1";
  if (record.attempt == 0) return "attempts count from 1";
  if (record.changes == 0) return "a record has been changed at least once";
  if (!IsSet(record.create_time)) return "an operation has a create_time";
  if (record.update_time < record.create_time) return "no update before creation";
  if (record.history.size() > kMaxHistoryEvents) return "too many events";
  if (!std::is_sorted(record.labels.begin(), record.labels.end())) return "labels are sorted";
  for (const std::string_view rule : {BrokenTimeRule(record), BrokenEndedRule(record),
                                      BrokenOpenRule(record), BrokenEndRule(record)}) {
    if (!rule.empty()) return rule;
  }
  return {};
}

std::string_view BrokenRule(const Record& before, const Record& after) {
  if (after.token < before.token) return "a token never falls";
  if (after.changes <= before.changes) return "every change counts";
  if (after.update_time < before.update_time) return "time never runs backwards for a record";
  const bool acquired = after.token > before.token;
  if (acquired && before.state == State::kPending) return "nobody acquires what is held";
  if (acquired && after.state != State::kPending) return "an acquisition is pending";
  if (before.state == State::kComplete && after.state == State::kPending) {
    return "what is complete is not taken up again";
  }
  if (before.state == State::kExpired && acquired &&
      std::none_of(after.history.begin(), after.history.end(), [&](const Event& event) {
        return event.kind == EventKind::kStartedOver && event.time == after.acquire_time;
      })) {
    return "what has expired is taken up again only by starting over";
  }
  if (before.state == State::kComplete && after.state == State::kComplete &&
      before.verdict != after.verdict && before.verdict != Verdict::kAbandoned) {
    return "a verdict stands";
  }
  return {};
}

}  // namespace idempotency::core
