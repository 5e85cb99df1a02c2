// The attempt that fn is given: it knows how long its lease lasts by the own clock, keeps it
// alive in the background, and says when it is lost.
//
//   auto held = std::make_shared<HeldAttempt>(std::move(setup));
//   held->Start();
//   fn(*held);
//   held->LetGoOfFn();      // nothing of fn's is called any more
//   ... report the result ...
//   held->StopRenewing();   // nothing of the client's is used any more
//
// Two things are in the timer meanwhile: the next renewal, and a watch over the end of the lease
// and of fn's time. A renewal's answer may come at any time, even when all is over: it holds the
// attempt weakly.
#ifndef IDEMPOTENCY_CLIENT_SRC_HELD_ATTEMPT_H_
#define IDEMPOTENCY_CLIENT_SRC_HELD_ATTEMPT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/src/renewal_timer.h"
#include "idempotency/client.h"

namespace idempotency::internal {

// How much of a lease is not relied on: a tenth of it, at least a second, at most half.
Duration LeaseMargin(Duration lease);

// Renewals do not follow closer upon each other, however short the lease has become.
inline constexpr Duration kRenewalGap = std::chrono::milliseconds(250);

// Thread safety: as Attempt; Start, LetGoOfFn and StopRenewing on the thread of Run.
class HeldAttempt final : public Attempt, public std::enable_shared_from_this<HeldAttempt> {
 public:
  struct Setup {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Environment> environment;
    // Used only between Start and StopRenewing.
    RenewalTimer* timer = nullptr;
    OperationId id;
    Lease lease;
    // Monotonic time from before the request that returned the lease was sent.
    std::chrono::nanoseconds sent_at{0};
    std::optional<Duration> lease_duration;
    std::optional<Duration> call_timeout;
    bool dispatch_later = false;
    bool renew = true;
    RetryPolicy retry;
    BackoffPolicy backoff;
    std::stop_token cancelled;
  };

  explicit HeldAttempt(Setup setup);

  // Extends the lease now, repeated as often as the retry policy says. OK: it is held, and counts
  // from before this call.
  absl::Status Confirm() ABSL_LOCKS_EXCLUDED(mutex_);
  // Begins to renew, whenever half of what can be relied on has gone, and to count fn's time.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  // After it, nothing that was given to OnStop runs or will run.
  void LetGoOfFn() ABSL_LOCKS_EXCLUDED(mutex_);
  void StopRenewing() ABSL_LOCKS_EXCLUDED(mutex_);
  // The longest lease that the service has given.
  Duration granted() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the outbound call may have started.
  bool may_have_started() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Attempt:
  const OperationId& id() const override { return setup_.id; }
  uint32_t number() const override { return setup_.lease.attempt; }
  uint64_t fencing_token() const override { return setup_.lease.fencing_token; }
  const std::string& provider_key() const override { return provider_key_; }
  const std::optional<std::string>& progress() const override { return setup_.lease.progress; }
  bool should_stop() const override ABSL_LOCKS_EXCLUDED(mutex_);
  std::stop_token stop_token() const override { return stop_.get_token(); }
  void OnStop(std::function<void()> callback) override ABSL_LOCKS_EXCLUDED(mutex_);
  Duration remaining() const override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Dispatch() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SaveProgress(std::string progress) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  RenewRequest MakeRenewal() const;
  // One renewal that carries `request`; repeated while the policy allows.
  absl::Status RenewWith(const RenewRequest& request, const RetryPolicy& policy)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // As often as the policy and the lease allow.
  RetryPolicy WhileHeld() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Accept(const Lease& lease, std::chrono::nanoseconds sent_at) ABSL_LOCKS_EXCLUDED(mutex_);

  void RenewInBackground() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnRenewed(const absl::StatusOr<RenewResponse>& response, std::chrono::nanoseconds sent_at)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWatch() ABSL_LOCKS_EXCLUDED(mutex_);
  void RenewAt(std::chrono::nanoseconds due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchAt(std::chrono::nanoseconds due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::chrono::nanoseconds Now() const { return setup_.environment->MonotonicNow(); }
  Duration RemainingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOverLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Setup setup_;
  const std::string provider_key_;
  // Requested without the lock: callbacks are the caller's, and may ask the attempt something.
  // What has once been said stays so, even where it was only asked.
  mutable std::stop_source stop_;

  mutable absl::Mutex mutex_;
  // When the lease ends and when fn's time does, by the own monotonic clock; the margin of the
  // lease taken off.
  std::chrono::nanoseconds lease_end_ ABSL_GUARDED_BY(mutex_){0};
  std::chrono::nanoseconds call_end_ ABSL_GUARDED_BY(mutex_);
  // When half of the newest lease, or of what can be relied on of it, has gone.
  std::chrono::nanoseconds half_ ABSL_GUARDED_BY(mutex_){0};
  Duration granted_ ABSL_GUARDED_BY(mutex_){0};
  bool active_ ABSL_GUARDED_BY(mutex_) = false;
  bool may_have_started_ ABSL_GUARDED_BY(mutex_);
  uint32_t failed_renewals_ ABSL_GUARDED_BY(mutex_) = 0;
  RenewalTimer::Place renewal_ ABSL_GUARDED_BY(mutex_);
  RenewalTimer::Place watch_ ABSL_GUARDED_BY(mutex_);
  std::list<StopCallback> on_stop_ ABSL_GUARDED_BY(mutex_);

  // Passes the caller's cancellation on; the first to go.
  std::optional<StopCallback> on_cancelled_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_HELD_ATTEMPT_H_
