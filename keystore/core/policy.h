// What holds for every operation of a namespace, as far as decisions depend on it. The
// values are validated where they enter (service/config); the core takes them as they are.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_POLICY_H_
#define IDEMPOTENCY_KEYSTORE_CORE_POLICY_H_

#include <cstdint>

#include "keystore/core/limits.h"
#include "keystore/core/time.h"

namespace idempotency::core {

// What to do with an operation whose outcome is unknown. Numbers as in the API and on disk.
enum class UnknownOutcome : uint8_t {
  kReconcileFirst = 1,  // nobody attempts it again until it is resolved
  kRetrySameKey = 2,    // a new attempt while the provider recognises the key
  kRerun = 3,           // harmless to repeat: a new attempt at once
};

// What to do with keys that look like personal data or credentials. Numbers as in the API.
enum class KeyCheck : uint8_t { kRefuse = 1, kWarn = 2, kOff = 3 };

// The part of a policy that decides about operations whose outcome is unknown. An open
// record keeps the terms it was acquired under; a new attempt needs those and today's.
struct Terms {
  UnknownOutcome unknown_outcome = UnknownOutcome::kReconcileFirst;
  // RETRY_SAME_KEY: how long the provider recognises the key, from the first attempt.
  Duration protection_window{0};
  // RETRY_SAME_KEY: how many attempts in all.
  uint32_t max_attempts = 0;
  Duration initial_backoff = std::chrono::seconds(1);
  Duration max_backoff = std::chrono::minutes(5);
  // How long after an attempt became unknown it may be settled as not executed.
  Duration settle = std::chrono::seconds(60);
  // How long a completed answer is replayed; under RERUN also how long an unresolved
  // operation is remembered.
  Duration retention = kDay;

  friend bool operator==(const Terms&, const Terms&) = default;
};

// Which row of somebody's table counts what is done under a policy. It decides nothing, so any two
// are equal.
struct Tally {
  uint32_t row = 0;

  friend bool operator==(const Tally&, const Tally&) { return true; }
};

inline constexpr uint64_t kUnlimited = UINT64_MAX;

// How much a namespace or a scope may use before new keys are refused. The core is told only that
// they are (ReserveCommand::refuse_new).
struct Quota {
  uint64_t reserves_per_second = kUnlimited;
  // At once, after a pause; kUnlimited: as many as in a second.
  uint64_t reserve_burst = kUnlimited;
  uint64_t open_operations = kUnlimited;  // PENDING or UNRESOLVED
  uint64_t stored_bytes = kUnlimited;

  friend bool operator==(const Quota&, const Quota&) = default;
};

struct Policy {
  bool scope_optional = false;
  bool fingerprint_optional = false;
  Duration default_lease = std::chrono::seconds(30);
  Duration max_lease = kDay;
  // How long one acquisition may be kept alive by Renew.
  Duration max_hold = kDay;
  Duration max_wait = std::chrono::seconds(60);
  Duration max_retention = kMaxPolicyDuration;
  // How long a completed key is remembered after its retention.
  Duration expired_memory = 30 * kDay;
  uint32_t max_key_bytes = kMaxKeyBytes;
  uint32_t max_response_bytes = kDefaultMaxResponseBytes;
  KeyCheck key_check = KeyCheck::kRefuse;
  Terms terms;
  Quota quota;        // of all of the namespace
  Quota scope_quota;  // of each of its scopes
  // Of the store, not of the namespace: it has lost records, so that of operations begun before
  // this nothing may be known though they happened. Unset: nothing was ever lost.
  Time lost_before;
  Tally tally;

  friend bool operator==(const Policy&, const Policy&) = default;
};

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_POLICY_H_
