// How many of something are under way, and waiting until none is. Counting takes no lock, unless
// somebody waits.
//
// Thread safety: all methods may be called from any thread, the waits from one at a time. Whoever
// has waited may destroy it at once: the last to leave touches it no more.
#ifndef IDEMPOTENCY_KEYSTORE_OUTSTANDING_H_
#define IDEMPOTENCY_KEYSTORE_OUTSTANDING_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace idempotency::keystore {

class Outstanding {
 public:
  void Enter() { state_.fetch_add(kOne); }

  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    // Before anybody waits, this is the last that is done with the object. Afterwards whoever
    // waits does not go by the count, but by what the last to leave says under the lock.
    if (state_.fetch_sub(kOne) == kOne + kAwaited) SayNone();
  }

  // Returns when there was a moment with none.
  void AwaitNone() ABSL_LOCKS_EXCLUDED(mutex_) { AwaitNone(absl::InfiniteDuration()); }
  // As above, or after `most`.
  void AwaitNone(absl::Duration most) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    none_ = false;
    const bool none = state_.fetch_or(kAwaited) < kOne;
    if (!none) mutex_.AwaitWithTimeout(absl::Condition(&none_), most);
    state_.fetch_and(~kAwaited);
  }

 private:
  static constexpr uint64_t kAwaited = 1;
  static constexpr uint64_t kOne = 2;

  void SayNone() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    none_ = true;
  }

  // The count, and whether somebody waits, in one word: it is decided at one moment who of the
  // two sees the other.
  std::atomic<uint64_t> state_{0};
  absl::Mutex mutex_;
  bool none_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_OUTSTANDING_H_
