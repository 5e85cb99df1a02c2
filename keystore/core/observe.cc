// What time alone does to a record. Reads, transitions and the compaction filter all ask
// here, so that no answer depends on what has been swept or compacted.
#include <utility>

#include "keystore/core/limits.h"
#include "keystore/core/record_edit.h"
#include "keystore/core/transition.h"

namespace idempotency::core {
namespace {

// Retention is over: the answer is gone, the fact is not.
void Expire(Record& record) {
  const Time at = record.response_expire_time;
  record.state = State::kExpired;
  record.response = Response{};
  record.progress.reset();
  record.labels.clear();
  record.response_expire_time = Time{};
  Touch(record, at);
}

}  // namespace

// Leases go on by elapsed time, also while the wall clock is in doubt.
bool LeaseHasEnded(const Record& record, const Now& now) {
  return record.state == State::kPending &&
         NotBefore(now, record.update_time).earliest >= record.lease_expire_time;
}

// The lease ran out before its owner reported. An attempt that provably never started has
// done nothing; any other may have had its effect.
void Lapse(Record& record) {
  const Time at = record.lease_expire_time;
  AddEvent(record, Event{.kind = EventKind::kLeaseLapsed,
                         .time = at,
                         .attempt = record.attempt,
                         .actor = record.owner.worker});
  EndAttempt(record, EndVerb::kLapsed, Digest{});
  if (record.started) {
    BecomeUnresolved(record,
                     Unknown{.cause = UnresolvedCause::kLeaseLapsed,
                             .attempt = record.attempt,
                             .since = at,
                             .next_attempt_time = Add(at, Backoff(record.terms, record.attempt))},
                     at);
  } else if (record.earlier.has_value()) {
    ReturnToEarlier(record, at);
  } else {
    Free(record, at, kFreedMemory);
  }
  Touch(record, at);
}

std::optional<Record> Observe(Record record, const Now& raw) {
  const Now now = NotBefore(raw, record.update_time);
  if (LeaseHasEnded(record, now)) Lapse(record);
  if (now.in_doubt) return record;
  if (record.state == State::kComplete && now.earliest >= record.response_expire_time) {
    Expire(record);
  }
  if (IsSet(record.forget_time) && now.earliest >= record.forget_time) return std::nullopt;
  return record;
}

}  // namespace idempotency::core
