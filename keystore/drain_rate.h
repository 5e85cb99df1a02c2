// How fast a lane works off its queue while there is always more in it than fits into a batch; and
// so, how long a newcomer would be queued.
//
// Thread safety: OnTaken from one thread at a time, TimeFor from any.
#ifndef IDEMPOTENCY_KEYSTORE_DRAIN_RATE_H_
#define IDEMPOTENCY_KEYSTORE_DRAIN_RATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "keystore/core/time.h"

namespace idempotency::keystore {

class DrainRate {
 public:
  // Shorter spans are not worth much where time has milliseconds.
  static constexpr core::Duration kWindow = std::chrono::milliseconds(100);

  // The lane has taken so many commands, and others are left.
  void OnTaken(size_t commands, core::Time now);
  // The lane has taken all there were: nobody is queued for longer than a batch lasts.
  void OnEmptied();

  // Zero where it is not known, for the queue has only begun to grow.
  core::Duration TimeFor(size_t commands) const;

 private:
  core::Time since_;  // unset: nothing is being measured
  uint64_t taken_ = 0;
  std::atomic<uint64_t> nanos_each_{0};
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_DRAIN_RATE_H_
