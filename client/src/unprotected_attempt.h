// What fn is given where the service cannot be reached and the caller wants to go on all the same
// (RunOptions::allow_unprotected): nothing is held, and there is nothing to lose.
#ifndef IDEMPOTENCY_CLIENT_SRC_UNPROTECTED_ATTEMPT_H_
#define IDEMPOTENCY_CLIENT_SRC_UNPROTECTED_ATTEMPT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/src/renewal_timer.h"
#include "client/src/run_context.h"
#include "idempotency/client.h"

namespace idempotency::internal {

// Thread safety: as Attempt.
class UnprotectedAttempt final : public Attempt {
 public:
  explicit UnprotectedAttempt(const RunContext& context);
  ~UnprotectedAttempt() override;

  const OperationId& id() const override { return id_; }
  // An earlier one that nobody knows of may have had its effect.
  uint32_t number() const override { return 2; }
  uint64_t fencing_token() const override { return 0; }
  const std::string& provider_key() const override { return provider_key_; }
  const std::optional<std::string>& progress() const override { return progress_; }
  bool should_stop() const override;
  std::stop_token stop_token() const override { return stop_.get_token(); }
  void OnStop(std::function<void()> callback) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Of call_timeout; a day where there is none.
  Duration remaining() const override;
  absl::Status Dispatch() override;
  absl::Status SaveProgress(std::string progress) override;
  // Whether the outbound call may have started.
  bool may_have_started() const { return may_have_started_; }

 private:
  using StopCallback = std::stop_callback<std::function<void()>>;

  const OperationId id_;
  const std::string provider_key_;
  const std::optional<std::string> progress_;
  Environment& environment_;
  RenewalTimer& timer_;
  const std::chrono::nanoseconds end_;
  std::atomic<bool> may_have_started_;
  mutable std::stop_source stop_;
  RenewalTimer::Place watch_;
  // Passes the caller's cancellation on.
  std::optional<StopCallback> on_cancelled_;
  absl::Mutex mutex_;
  std::list<StopCallback> on_stop_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_UNPROTECTED_ATTEMPT_H_
