#include "client/src/unprotected_attempt.h"

#include <algorithm>
#include <utility>

#include "idempotency/keys.h"

namespace idempotency::internal {
namespace {

using std::chrono::nanoseconds;

constexpr Duration kNoLimit = std::chrono::hours(24);

}  // namespace

UnprotectedAttempt::UnprotectedAttempt(const RunContext& context)
    : id_(context.request.id),
      provider_key_(ProviderKey(context.request.id)),
      environment_(*context.environment),
      timer_(context.timer),
      end_(environment_.MonotonicNow() +
           nanoseconds(std::min(context.request.call_timeout.value_or(kNoLimit), kNoLimit))),
      may_have_started_(!context.request.dispatch_later) {
  // A stop_source is a handle: the copy in the timer shares its state, and outlives this.
  watch_ = timer_.At(end_, [stop = stop_]() mutable { stop.request_stop(); });
  on_cancelled_.emplace(context.CancelToken(), [this] { stop_.request_stop(); });
}

UnprotectedAttempt::~UnprotectedAttempt() { timer_.Cancel(watch_); }

bool UnprotectedAttempt::should_stop() const {
  if (!stop_.stop_requested() && remaining() <= Duration(0)) stop_.request_stop();
  return stop_.stop_requested();
}

void UnprotectedAttempt::OnStop(std::function<void()> callback) {
  // Made without the lock: it may be called at once.
  std::list<StopCallback> made;
  made.emplace_back(stop_.get_token(), std::move(callback));
  absl::MutexLock lock(&mutex_);
  on_stop_.splice(on_stop_.end(), made);
}

Duration UnprotectedAttempt::remaining() const {
  return std::max(Duration(0), std::chrono::floor<Duration>(end_ - environment_.MonotonicNow()));
}

absl::Status UnprotectedAttempt::Dispatch() {
  if (may_have_started_) return absl::OkStatus();
  if (should_stop()) {
    return absl::CancelledError("the time is up or the caller cancelled: do not start the call");
  }
  may_have_started_ = true;
  return absl::OkStatus();
}

absl::Status UnprotectedAttempt::SaveProgress(std::string progress) {
  return absl::FailedPreconditionError(
      "nothing is held, so progress cannot be kept: the service could not be reached");
}

}  // namespace idempotency::internal
