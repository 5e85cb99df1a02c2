// Every limit and built-in default, with its unit. Checked at the edge (service/validation),
// documented in README.md, tested at the boundary.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_LIMITS_H_
#define IDEMPOTENCY_KEYSTORE_CORE_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "keystore/core/time.h"

namespace idempotency::core {

// --- Sizes of what callers send -------------------------------------------------------
inline constexpr size_t kMaxNamespaceBytes = 64;
inline constexpr size_t kMaxScopeBytes = 255;
inline constexpr size_t kMaxKeyBytes = 255;
// worker, operation_ref, traceparent, provider_request_id, actor, content_type.
inline constexpr size_t kMaxShortTextBytes = 255;
// detail, reason, status_message.
inline constexpr size_t kMaxLongTextBytes = 1024;
inline constexpr size_t kMinAttemptIdBytes = 16;
inline constexpr size_t kMaxAttemptIdBytes = 64;
inline constexpr size_t kMaxFingerprintAlgorithmBytes = 64;
inline constexpr size_t kMinFingerprintDigestBytes = 16;
inline constexpr size_t kMaxFingerprintDigestBytes = 64;
inline constexpr size_t kMaxLabels = 16;
inline constexpr size_t kMaxLabelBytes = 1024;  // names and values together
inline constexpr size_t kMaxMetadataEntries = 64;
inline constexpr size_t kMaxMetadataBytes = 8 * 1024;  // names and values together
inline constexpr size_t kMaxProgressBytes = 4 * 1024;
inline constexpr uint32_t kDefaultMaxResponseBytes = 1024 * 1024;
inline constexpr uint32_t kMaxResponseBytes = 3 * 1024 * 1024;
// More than may be stored, so that an answer over the limit is dropped and not refused.
inline constexpr size_t kMaxReceiveMessageBytes = 16 * 1024 * 1024;
// What the default limit of generated clients still accepts.
inline constexpr size_t kMaxSendMessageBytes = 4 * 1024 * 1024;

// --- Counts ------------------------------------------------------------------------------
// The first event and the newest 15.
inline constexpr size_t kMaxHistoryEvents = 16;
inline constexpr size_t kMaxEndedAttempts = 8;
inline constexpr size_t kMaxBatchCommands = 1024;
inline constexpr size_t kDefaultPageSize = 100;
inline constexpr size_t kMaxPageSize = 1000;
inline constexpr size_t kMaxPageBytes = 1024 * 1024;
inline constexpr size_t kMaxWaitersPerKey = 1000;
inline constexpr size_t kMaxWaiters = 10'000;
inline constexpr size_t kMaxQueuedCommands = 16'384;
// Tokens stay exact in languages whose numbers are doubles.
inline constexpr uint64_t kMaxFencingToken = (uint64_t{1} << 53) - 1;

// Responses carried into one commit; a batch is closed when it has more.
inline constexpr size_t kMaxBatchResponseBytes = 8 * 1024 * 1024;
// Stored bytes brought in by one read; what would come after it is read with the next batch. One
// record more may be in it.
inline constexpr size_t kMaxReadBytes = 32 * 1024 * 1024;

// --- Times ---------------------------------------------------------------------------------
inline constexpr Duration kDay = std::chrono::hours(24);
// Nobody is told to come back later than this while somebody holds the lease.
inline constexpr Duration kMaxInProgressRetryAfter = std::chrono::seconds(1);
// How long a freed key is remembered, so that late messages are understood.
inline constexpr Duration kFreedMemory = std::chrono::minutes(10);
// No attempt is granted where less than this is left of the provider's protection.
inline constexpr Duration kMinProtectedLease = std::chrono::seconds(1);
// When to ask again while the clock is in doubt.
inline constexpr Duration kClockDoubtRetryAfter = std::chrono::seconds(10);
// When to ask again after a refusal for load, stall or space.
inline constexpr Duration kOverloadRetryAfter = std::chrono::seconds(1);
// The same where many come back to be refused again.
inline constexpr Duration kMaxOverloadRetryAfter = std::chrono::seconds(10);
// A wait ends this long before the caller's own deadline, so that the answer still arrives.
inline constexpr Duration kWaitDeadlineMargin = std::chrono::milliseconds(100);
// Wall time this far ahead of elapsed time is a jump that somebody has to confirm.
inline constexpr Duration kMaxClockJump = std::chrono::hours(1);
// The longest duration that any policy may set, and that any request is clamped to.
inline constexpr Duration kMaxPolicyDuration = 400 * kDay;

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_LIMITS_H_
