// Lets one caller through in a while, without a lock or a thread: for looks at the system that
// are too dear for every command.
//
// Thread safety: may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_THROTTLE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_THROTTLE_H_

#include <atomic>

#include "keystore/core/time.h"

namespace idempotency::keystore {

class Throttle {
 public:
  explicit Throttle(core::Duration interval) : interval_(interval) {}

  // True at most once an interval, and the first time.
  bool Due(core::Time now) {
    core::Duration::rep due = due_.load();
    const core::Duration::rep at = now.time_since_epoch().count();
    return at >= due && due_.compare_exchange_strong(due, at + interval_.count());
  }

 private:
  const core::Duration interval_;
  std::atomic<core::Duration::rep> due_{0};
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_THROTTLE_H_
