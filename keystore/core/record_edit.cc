#include "keystore/core/record_edit.h"

#include <algorithm>
#include <utility>

#include "keystore/core/limits.h"

namespace idempotency::core {

void AddEvent(Record& record, Event event) {
  // The second oldest goes: the first event stays, it tells how the operation began.
  if (record.history.size() == kMaxHistoryEvents) record.history.erase(record.history.begin() + 1);
  record.history.push_back(std::move(event));
}

const EndedAttempt* FindEnded(const Record& record, uint64_t token) {
  for (const EndedAttempt& ended : record.ended) {
    if (ended.token == token) return &ended;
  }
  return nullptr;
}

bool HasEnded(const Record& record, const Digest& attempt_id) {
  return std::any_of(record.ended.begin(), record.ended.end(),
                     [&](const EndedAttempt& ended) { return ended.attempt_id == attempt_id; });
}

void EndAttempt(Record& record, EndVerb verb, const Digest& content) {
  if (!record.ended.empty() && record.ended.back().token == record.token) {
    record.ended.back().verb = verb;
    record.ended.back().content = content;
    return;
  }
  if (record.ended.size() == kMaxEndedAttempts) record.ended.erase(record.ended.begin());
  record.ended.push_back(EndedAttempt{.token = record.token,
                                      .attempt = record.attempt,
                                      .attempt_id = record.attempt_id,
                                      .verb = verb,
                                      .content = content});
}

void NoteEvidence(Record& record, uint64_t token) {
  for (EndedAttempt& ended : record.ended) {
    if (ended.token == token) ended.evidence = true;
  }
}

Duration Backoff(const Terms& terms, uint32_t attempt) {
  Duration backoff = terms.initial_backoff;
  if (backoff <= Duration::zero()) return Duration::zero();
  for (uint32_t i = 1; i < attempt && backoff < terms.max_backoff; ++i) backoff *= 2;
  return std::min(backoff, terms.max_backoff);
}

namespace {

// Under RERUN an unresolved operation is harmless and is forgotten after its retention, unless
// its owner asked for a person's decision; under the other policies never. Where retention is
// zero it is remembered like a freed key, so that late messages are understood.
Time ForgetUnresolved(const Record& record, Time from) {
  if (record.terms.unknown_outcome != UnknownOutcome::kRerun) return Time{};
  if (record.unknown->reconcile_first) return Time{};
  const Duration retention = record.terms.retention;
  return Add(from, retention == Duration::zero() ? kFreedMemory : retention);
}

}  // namespace

void BecomeUnresolved(Record& record, Unknown unknown, Time at) {
  record.state = State::kUnresolved;
  record.attempt = unknown.attempt;
  record.started = true;
  record.dispatched = true;
  record.unknown = std::move(unknown);
  record.forget_time = ForgetUnresolved(record, at);
}

void ReturnToEarlier(Record& record, Time at) {
  record.state = State::kUnresolved;
  record.unknown = record.earlier;
  record.attempt = record.unknown->attempt;
  record.forget_time = ForgetUnresolved(record, record.unknown->since);
  // The earlier attempt may be old enough to be forgotten, but the newest has only just ended.
  if (IsSet(record.forget_time)) {
    record.forget_time = std::max(record.forget_time, Add(at, kFreedMemory));
  }
}

void Free(Record& record, Time at, Duration memory) {
  record.state = State::kFreed;
  record.unknown.reset();
  record.earlier.reset();
  record.forget_time = Add(at, memory);
}

void CloseOpen(Record& record) {
  record.unknown.reset();
  record.earlier.reset();
  record.terms = Terms{};
  record.acquire_time = Time{};
  record.lease_expire_time = Time{};
}

void Touch(Record& record, Time at) {
  // What time alone has done is noted late where a newer change came in between.
  record.update_time = std::max(record.update_time, at);
  ++record.changes;
}

}  // namespace idempotency::core
