#include "keystore/core/loss.h"

#include <algorithm>

#include "keystore/core/record_edit.h"

namespace idempotency::core {

Record AfterLoss(Record record, const Now& now) {
  if (record.state != State::kPending) return record;
  const Time at = NotBefore(now, record.update_time).latest;
  const Time since = std::min(at, record.lease_expire_time);
  EndAttempt(record, EndVerb::kMarkedUnresolved, Digest{});
  BecomeUnresolved(record,
                   Unknown{.cause = UnresolvedCause::kOther,
                           .attempt = record.attempt,
                           .since = since,
                           .next_attempt_time = Add(since, Backoff(record.terms, record.attempt))},
                   at);
  AddEvent(record, Event{.kind = EventKind::kMarkedUnresolved,
                         .time = at,
                         .attempt = record.attempt,
                         .detail = "the store lost what came after this record"});
  Touch(record, at);
  return record;
}

}  // namespace idempotency::core
