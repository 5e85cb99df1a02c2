#include "client/src/retry.h"

#include <algorithm>
#include <optional>

namespace idempotency::internal {
namespace {

using std::chrono::nanoseconds;

// Spans of a century and more are meant as "for ever".
constexpr Duration kForEver = std::chrono::hours(24 * 36525);

nanoseconds After(nanoseconds now, Duration span) {
  return now + nanoseconds(std::clamp(span, Duration(0), kForEver));
}

// The policy's delay, or what the service asked for where that is longer.
Duration DelayBefore(uint32_t attempt, const absl::Status& failure, const BackoffPolicy& backoff,
                     Environment& environment) {
  const Duration delay = backoff.Delay(attempt, environment.Random());
  const std::optional<Refusal> refusal = Refused(failure);
  if (!refusal.has_value() || !refusal->retry_after.has_value()) return delay;
  return std::max(delay, *refusal->retry_after);
}

}  // namespace

RetryClock::RetryClock(Environment& environment, const RetryPolicy& policy,
                       const BackoffPolicy& backoff)
    : environment_(environment),
      policy_(policy),
      backoff_(backoff),
      end_(After(environment.MonotonicNow(), policy.total)) {}

Duration RetryClock::Left() const {
  return std::chrono::floor<Duration>(end_ - environment_.MonotonicNow());
}

Duration RetryClock::Timeout() const {
  return std::clamp(Left(), kShortestCallTimeout, CallOptions().timeout);
}

void RetryClock::EndWithin(Duration span) {
  end_ = std::min(end_, After(environment_.MonotonicNow(), span));
}

bool RetryClock::Again(const absl::Status& failure, bool may_pass, const std::stop_token& stop) {
  ++attempts_;
  if (!may_pass || attempts_ >= policy_.max_attempts) return false;
  const Duration delay = DelayBefore(attempts_ + 1, failure, backoff_, environment_);
  if (delay >= Left()) return false;
  environment_.SleepUnless(stop, delay);
  return true;
}

bool IsFinalRefusal(const absl::Status& status) {
  return Refused(status).has_value() && !IsTransient(status);
}

}  // namespace idempotency::internal
