// What a namespace or a scope uses, compared with what it may (core::Quota): a pure decision.
//
// Thread safety: pure functions and values.
#ifndef IDEMPOTENCY_KEYSTORE_QUOTA_H_
#define IDEMPOTENCY_KEYSTORE_QUOTA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "keystore/core/policy.h"
#include "keystore/core/time.h"
#include "keystore/token_bucket.h"

namespace idempotency::keystore {

enum class QuotaKind : uint8_t { kReserves, kOpenOperations, kStoredBytes };
inline constexpr size_t kQuotaKinds = 3;

// When it may be asked again where nobody can say when there will be room.
inline constexpr core::Duration kOpenQuotaRetryAfter = std::chrono::seconds(1);
inline constexpr core::Duration kBytesQuotaRetryAfter = std::chrono::seconds(60);
// A rate that is never reached again is asked of as rarely.
inline constexpr core::Duration kMaxQuotaRetryAfter = std::chrono::seconds(60);

// Which quota is used up, and when to try again.
struct QuotaExcess {
  QuotaKind kind = QuotaKind::kReserves;
  bool of_scope = false;  // else of the namespace
  core::Duration retry_after{0};

  friend bool operator==(const QuotaExcess&, const QuotaExcess&) = default;
};

struct Usage {
  uint64_t open_operations = 0;
  uint64_t stored_bytes = 0;
};

inline bool IsLimited(const core::Quota& quota) { return quota != core::Quota{}; }

// The rate that a quota sets; nothing where it sets none.
inline std::optional<Rate> RateOf(const core::Quota& quota) {
  if (quota.reserves_per_second == core::kUnlimited) return std::nullopt;
  const bool has_burst = quota.reserve_burst != core::kUnlimited;
  return Rate{quota.reserves_per_second,
              has_burst ? quota.reserve_burst : quota.reserves_per_second};
}

// Whether one more operation would be too many. The rate is another matter: it is asked of every
// Reserve, and this where a key would be new.
inline std::optional<QuotaExcess> FindExcess(const core::Quota& quota, const Usage& usage,
                                             bool of_scope) {
  if (usage.open_operations >= quota.open_operations) {
    return QuotaExcess{QuotaKind::kOpenOperations, of_scope, kOpenQuotaRetryAfter};
  }
  if (usage.stored_bytes >= quota.stored_bytes) {
    return QuotaExcess{QuotaKind::kStoredBytes, of_scope, kBytesQuotaRetryAfter};
  }
  return std::nullopt;
}

// What is said of a Reserve for which nothing is left in `bucket`.
inline QuotaExcess RateExcess(const Rate& rate, TokenBucket* bucket, core::Time now,
                              bool of_scope) {
  return QuotaExcess{QuotaKind::kReserves, of_scope,
                     std::min(bucket->Wait(rate, now), kMaxQuotaRetryAfter)};
}

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_QUOTA_H_
