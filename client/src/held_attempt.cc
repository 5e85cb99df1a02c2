#include "client/src/held_attempt.h"

#include <algorithm>
#include <utility>

#include "client/src/retry.h"
#include "idempotency/keys.h"

namespace idempotency::internal {
namespace {

using std::chrono::nanoseconds;

nanoseconds Usable(Duration lease) { return nanoseconds(lease - LeaseMargin(lease)); }

// Whether the refusal says that the lease is somebody else's, or nobody's.
bool IsLeaseLost(const absl::Status& status) {
  const std::optional<Refusal> refusal = Refused(status);
  if (!refusal.has_value()) return false;
  switch (refusal->reason) {
    case ErrorReason::kOperationNotFound:
    case ErrorReason::kStaleFencingToken:
    case ErrorReason::kUnknownFencingToken:
    case ErrorReason::kLeaseLapsed:
    case ErrorReason::kAlreadyComplete:
    case ErrorReason::kAttemptFinished:
    case ErrorReason::kOutcomeUnknown:
      return true;
    case ErrorReason::kUnspecified:
    case ErrorReason::kInvalidField:
    case ErrorReason::kNamespaceNotFound:
    case ErrorReason::kAccessDenied:
    case ErrorReason::kLeaseLive:
    case ErrorReason::kNotSettled:
    case ErrorReason::kWrongState:
    case ErrorReason::kEtagMismatch:
    case ErrorReason::kQuotaExceeded:
    case ErrorReason::kOverloaded:
    case ErrorReason::kStoreFull:
    case ErrorReason::kStoreUnavailable:
    case ErrorReason::kRecordUnreadable:
      return false;
  }
  return false;
}

absl::Status MustNotStart() {
  return absl::CancelledError(
      "the lease is lost, the time is up, or the caller cancelled: do not start the call");
}

}  // namespace

Duration LeaseMargin(Duration lease) {
  return std::min(std::max(lease / 10, Duration(std::chrono::seconds(1))), lease / 2);
}

HeldAttempt::HeldAttempt(Setup setup)
    : setup_(std::move(setup)),
      provider_key_(ProviderKey(setup_.id)),
      call_end_(nanoseconds::max()),
      may_have_started_(!setup_.dispatch_later) {
  Accept(setup_.lease, setup_.sent_at);
  on_cancelled_.emplace(setup_.cancelled, [this] { stop_.request_stop(); });
}

// --- The lease -----------------------------------------------------------------------------------

RenewRequest HeldAttempt::MakeRenewal() const {
  return RenewRequest{.id = setup_.id,
                      .fencing_token = setup_.lease.fencing_token,
                      .lease_duration = setup_.lease_duration};
}

absl::Status HeldAttempt::Confirm() { return RenewWith(MakeRenewal(), setup_.retry); }

absl::Status HeldAttempt::RenewWith(const RenewRequest& request, const RetryPolicy& policy) {
  nanoseconds sent_at{0};
  const absl::StatusOr<RenewResponse> response = Retry<RenewResponse>(
      *setup_.environment, policy, setup_.backoff, IsTransient, [&](const CallOptions& options) {
        sent_at = Now();
        return setup_.connection->Renew(request, options);
      });
  if (IsLeaseLost(response.status())) stop_.request_stop();
  if (response.ok()) Accept(response->lease, sent_at);
  return response.status();
}

RetryPolicy HeldAttempt::WhileHeld() const {
  RetryPolicy policy = setup_.retry;
  policy.total = std::min(policy.total, remaining());
  return policy;
}

// It counts from before the request was sent, and never gets shorter.
void HeldAttempt::Accept(const Lease& lease, nanoseconds sent_at) {
  absl::MutexLock lock(&mutex_);
  failed_renewals_ = 0;
  granted_ = std::max(granted_, lease.remaining);
  const nanoseconds usable = Usable(lease.remaining);
  lease_end_ = std::max(lease_end_, sent_at + usable);
  half_ = std::max(half_, sent_at + usable / 2);
}

Duration HeldAttempt::RemainingLocked() const {
  return std::max(Duration(0), std::chrono::floor<Duration>(lease_end_ - Now()));
}

Duration HeldAttempt::remaining() const {
  absl::MutexLock lock(&mutex_);
  return RemainingLocked();
}

Duration HeldAttempt::granted() const {
  absl::MutexLock lock(&mutex_);
  return granted_;
}

// --- In the background ---------------------------------------------------------------------------

void HeldAttempt::Start() {
  absl::MutexLock lock(&mutex_);
  active_ = true;
  if (setup_.call_timeout.has_value()) call_end_ = Now() + nanoseconds(*setup_.call_timeout);
  WatchAt(std::min(lease_end_, call_end_));
  if (setup_.renew) RenewAt(half_);
}

void HeldAttempt::LetGoOfFn() {
  std::list<StopCallback> dropped;
  {
    absl::MutexLock lock(&mutex_);
    dropped.swap(on_stop_);
  }
}

void HeldAttempt::StopRenewing() {
  RenewalTimer::Place renewal;
  RenewalTimer::Place watch;
  {
    absl::MutexLock lock(&mutex_);
    if (!active_) return;
    active_ = false;
    renewal = renewal_;
    watch = watch_;
  }
  setup_.timer->Cancel(renewal);
  setup_.timer->Cancel(watch);
}

void HeldAttempt::RenewAt(nanoseconds due) {
  if (!active_) return;
  renewal_ = setup_.timer->At(due, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->RenewInBackground();
  });
}

void HeldAttempt::WatchAt(nanoseconds due) {
  if (!active_) return;
  watch_ = setup_.timer->At(due, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->OnWatch();
  });
}

void HeldAttempt::RenewInBackground() {
  CallOptions options;
  {
    absl::MutexLock lock(&mutex_);
    if (!active_) return;
    // A renewal that somebody waited for has made this one unnecessary for a while.
    if (half_ > Now() && failed_renewals_ == 0) return RenewAt(half_);
    options.timeout = std::clamp(RemainingLocked(), kShortestCallTimeout, options.timeout);
  }
  const nanoseconds sent_at = Now();
  setup_.connection->AsyncRenew(
      MakeRenewal(), options,
      [weak = weak_from_this(), sent_at](const absl::StatusOr<RenewResponse>& response) {
        if (const auto self = weak.lock()) self->OnRenewed(response, sent_at);
      });
}

void HeldAttempt::OnRenewed(const absl::StatusOr<RenewResponse>& response, nanoseconds sent_at) {
  if (response.ok()) {
    Accept(response->lease, sent_at);
    absl::MutexLock lock(&mutex_);
    return RenewAt(std::max(half_, Now() + nanoseconds(kRenewalGap)));
  }
  if (IsFinalRefusal(response.status())) {
    stop_.request_stop();
    return;
  }
  // It may pass. The lease may end meanwhile, which the watch tells; even then it is worth trying
  // while the result is reported: it keeps others away.
  const std::optional<Refusal> refusal = Refused(response.status());
  const Duration asked = refusal ? refusal->retry_after.value_or(Duration(0)) : Duration(0);
  absl::MutexLock lock(&mutex_);
  const Duration delay = setup_.backoff.Delay(++failed_renewals_ + 1, setup_.environment->Random());
  RenewAt(Now() + nanoseconds(std::max(delay, asked)));
}

void HeldAttempt::OnWatch() {
  {
    absl::MutexLock lock(&mutex_);
    if (!active_) return;
    if (!IsOverLocked()) return WatchAt(std::min(lease_end_, call_end_));
  }
  stop_.request_stop();
}

// --- What fn asks --------------------------------------------------------------------------------

bool HeldAttempt::IsOverLocked() const {
  return RemainingLocked() <= Duration(0) || Now() >= call_end_;
}

bool HeldAttempt::should_stop() const {
  if (stop_.stop_requested()) return true;
  {
    absl::MutexLock lock(&mutex_);
    if (!IsOverLocked()) return false;
  }
  stop_.request_stop();
  return true;
}

void HeldAttempt::OnStop(std::function<void()> callback) {
  // Made without the lock: it may be called at once.
  std::list<StopCallback> made;
  made.emplace_back(stop_.get_token(), std::move(callback));
  absl::MutexLock lock(&mutex_);
  on_stop_.splice(on_stop_.end(), made);
}

bool HeldAttempt::may_have_started() const {
  absl::MutexLock lock(&mutex_);
  return may_have_started_;
}

absl::Status HeldAttempt::Dispatch() {
  if (may_have_started()) return absl::OkStatus();
  if (should_stop()) return MustNotStart();
  RenewRequest request = MakeRenewal();
  request.dispatched = true;
  if (const absl::Status told = RenewWith(request, WhileHeld()); !told.ok()) return told;
  if (should_stop()) return MustNotStart();
  absl::MutexLock lock(&mutex_);
  may_have_started_ = true;
  return absl::OkStatus();
}

absl::Status HeldAttempt::SaveProgress(std::string progress) {
  RenewRequest request = MakeRenewal();
  request.progress = std::move(progress);
  return RenewWith(request, WhileHeld());
}

}  // namespace idempotency::internal
