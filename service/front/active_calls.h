// How many calls are being answered, so that a stopping service can see the last one off. gRPC's
// own shutdown also waits for idle connections, which may take their time.
#ifndef IDEMPOTENCY_SERVICE_FRONT_ACTIVE_CALLS_H_
#define IDEMPOTENCY_SERVICE_FRONT_ACTIVE_CALLS_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace idempotency::service {

// Thread safety: all methods may be called from any thread.
class ActiveCalls {
 public:
  void Enter() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++count_;
  }
  // What the call had to say has been handed to the transport.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --count_;
  }

  // Returns when there is none, or after `most`.
  void AwaitNone(absl::Duration most) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &ActiveCalls::IsNone), most);
  }

 private:
  bool IsNone() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return count_ == 0; }

  absl::Mutex mutex_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_ACTIVE_CALLS_H_
