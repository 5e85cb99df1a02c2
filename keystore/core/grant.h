// Whether an UNRESOLVED operation may be attempted again: the rules that only the policy can
// relax, apart from an operator's word.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_GRANT_H_
#define IDEMPOTENCY_KEYSTORE_CORE_GRANT_H_

#include <cstdint>

#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::core {

struct Grant {
  enum class When : uint8_t { kNow, kLater, kNever };
  When when = When::kNever;
  // kLater: from when on.
  Time at;
  // kNow, kLater: the lease of a retried attempt that has not been dispatched must not reach
  // past this, the end of the provider's protection; unset: no such end.
  Time lease_limit;
};

// `record` must be UNRESOLVED as observed at `now`. Both the terms it was acquired under and
// today's must allow the attempt.
Grant AssessGrant(const Record& record, const Terms& today, const Now& now);

// The end of the protection for an attempt after the first, under both terms; unset: none.
Time RetryLeaseLimit(const Record& record, const Terms& today);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_GRANT_H_
