// How long those who are refused for load are told to stay away.
//
// To refuse a call costs nearly what it costs to serve it, most of it in the transport. So the
// crowd of those who come back has to stay small beside those who are served: the delay grows while
// there are more of them than kRefusedPerServed, and shrinks while there are fewer. It is spread,
// so that those who were refused together do not come back together.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_PUSHBACK_H_
#define IDEMPOTENCY_KEYSTORE_PUSHBACK_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/limits.h"
#include "keystore/core/time.h"

namespace idempotency::keystore {

class Pushback {
 public:
  static constexpr double kRefusedPerServed = 0.1;
  // How often the delay is set anew, and how much it changes then at most. It goes half of the way,
  // by the logarithm: whoever comes back was told an earlier delay, and the whole way would make it
  // swing for ever.
  static constexpr core::Duration kWindow = std::chrono::seconds(1);
  static constexpr double kFastestGrowth = 2;
  static constexpr double kFastestFall = 0.7;
  // What is told is between 1 - kSpread and 1 + kSpread of the delay.
  static constexpr double kSpread = 0.25;

  void OnServed() { served_.fetch_add(1, std::memory_order_relaxed); }
  // What this one is told.
  core::Duration OnRefused(core::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SetDelay(core::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<uint64_t> served_{0};

  absl::Mutex mutex_;
  double delay_ms_ ABSL_GUARDED_BY(mutex_) = static_cast<double>(core::kOverloadRetryAfter.count());
  core::Time window_begin_ ABSL_GUARDED_BY(mutex_);  // unset: nobody was refused yet
  uint64_t served_before_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;  // in the window
  double place_ ABSL_GUARDED_BY(mutex_) = 0;      // of the last in the spread, from 0 to 1
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_PUSHBACK_H_
