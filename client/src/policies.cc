#include "idempotency/policies.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "idempotency/connection.h"

namespace idempotency {
namespace {

// The reasons that pass by themselves.
bool Passes(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kQuotaExceeded:
    case ErrorReason::kOverloaded:
    case ErrorReason::kStoreUnavailable:
      return true;
    case ErrorReason::kUnspecified:
    case ErrorReason::kInvalidField:
    case ErrorReason::kNamespaceNotFound:
    case ErrorReason::kOperationNotFound:
    case ErrorReason::kAccessDenied:
    case ErrorReason::kStaleFencingToken:
    case ErrorReason::kUnknownFencingToken:
    case ErrorReason::kLeaseLapsed:
    case ErrorReason::kAlreadyComplete:
    case ErrorReason::kAttemptFinished:
    case ErrorReason::kOutcomeUnknown:
    case ErrorReason::kLeaseLive:
    case ErrorReason::kNotSettled:
    case ErrorReason::kWrongState:
    case ErrorReason::kEtagMismatch:
    // Somebody has to make room first.
    case ErrorReason::kStoreFull:
    case ErrorReason::kRecordUnreadable:
      return false;
  }
  return false;
}

}  // namespace

bool IsTransient(const absl::Status& status) {
  if (status.ok()) return false;
  if (const std::optional<Refusal> refusal = Refused(status)) return Passes(refusal->reason);
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kCancelled;
}

Duration BackoffPolicy::Delay(uint32_t before_attempt, double random) const {
  if (before_attempt < 2) return Duration{0};
  const Duration most = std::max(maximum, Duration{0});
  const Duration first = std::clamp(initial, Duration{0}, most);
  const double growth = std::pow(std::max(factor, 1.0), static_cast<double>(before_attempt - 2));
  const double grown = static_cast<double>(first.count()) * growth;
  // Compared as doubles, before a conversion that could overflow.
  const bool below = grown < static_cast<double>(most.count());
  const Duration full = first == Duration{0} ? first
                        : below              ? Duration{static_cast<int64_t>(grown)}
                                             : most;
  const double part = std::clamp(jitter, 0.0, 1.0) * std::clamp(random, 0.0, 1.0);
  if (part >= 1.0) return Duration{0};
  return full - Duration{static_cast<int64_t>(static_cast<double>(full.count()) * part)};
}

}  // namespace idempotency
