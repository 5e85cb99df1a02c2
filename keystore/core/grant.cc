#include "keystore/core/grant.h"

#include <algorithm>

#include "keystore/core/limits.h"
#include "keystore/core/record_edit.h"

namespace idempotency::core {
namespace {

constexpr Grant kNever{Grant::When::kNever, Time{}, Time{}};

Time ProtectionEnd(const Record& record, const Terms& terms) {
  if (terms.unknown_outcome != UnknownOutcome::kRetrySameKey) return Time{};
  return Add(record.create_time, terms.protection_window);
}

// RETRY_SAME_KEY under one set of terms.
Grant AssessRetry(const Record& record, const Terms& terms, const Now& now) {
  const Unknown& unknown = *record.unknown;
  if (unknown.reconcile_first || unknown.attempt >= terms.max_attempts) return kNever;
  const Time end = ProtectionEnd(record, terms);
  const Time at =
      std::max(unknown.next_attempt_time, Add(unknown.since, Backoff(terms, unknown.attempt)));
  // The wall clock may be ahead of the guarded one: the provider goes by something like it.
  const Time latest = std::max({now.latest, now.wall, at});
  if (Add(latest, kMinProtectedLease) > end) return kNever;
  if (now.earliest < at) return Grant{Grant::When::kLater, at, end};
  return Grant{Grant::When::kNow, at, end};
}

Grant AssessUnder(const Record& record, const Terms& terms, const Now& now) {
  switch (terms.unknown_outcome) {
    case UnknownOutcome::kReconcileFirst:
      return kNever;
    case UnknownOutcome::kRetrySameKey:
      return AssessRetry(record, terms, now);
    case UnknownOutcome::kRerun:
      // Whoever saw it and asked for a person's decision knows more than the policy.
      return record.unknown->reconcile_first ? kNever : Grant{Grant::When::kNow, Time{}, Time{}};
  }
  return kNever;
}

Time EarlierSet(Time a, Time b) {
  if (!IsSet(a)) return b;
  if (!IsSet(b)) return a;
  return std::min(a, b);
}

// What both allow.
Grant Both(const Grant& a, const Grant& b) {
  if (a.when == Grant::When::kNever || b.when == Grant::When::kNever) return kNever;
  Grant both{std::max(a.when, b.when), std::max(a.at, b.at),
             EarlierSet(a.lease_limit, b.lease_limit)};
  if (IsSet(both.lease_limit) && Add(both.at, kMinProtectedLease) > both.lease_limit) return kNever;
  return both;
}

}  // namespace

Grant AssessGrant(const Record& record, const Terms& today, const Now& now) {
  Grant grant = Both(AssessUnder(record, record.terms, now), AssessUnder(record, today, now));
  if (grant.when != Grant::When::kNever && now.in_doubt) {
    // Nobody knows how much of the protection is left. Ask again when the clock is confirmed.
    grant.when = Grant::When::kLater;
    grant.at = std::max(grant.at, Add(now.latest, kClockDoubtRetryAfter));
  }
  return grant;
}

Time RetryLeaseLimit(const Record& record, const Terms& today) {
  return EarlierSet(ProtectionEnd(record, record.terms), ProtectionEnd(record, today));
}

}  // namespace idempotency::core
