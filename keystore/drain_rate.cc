#include "keystore/drain_rate.h"

#include <chrono>

namespace idempotency::keystore {

void DrainRate::OnTaken(size_t commands, core::Time now) {
  if (!core::IsSet(since_)) since_ = now;
  // What was taken before has been worked off by now.
  if (taken_ > 0 && now - since_ >= kWindow) {
    const std::chrono::nanoseconds span = now - since_;
    nanos_each_.store(static_cast<uint64_t>(span.count()) / taken_, std::memory_order_relaxed);
    since_ = now;
    taken_ = 0;
  }
  taken_ += commands;
}

void DrainRate::OnEmptied() {
  since_ = core::Time{};
  taken_ = 0;
  nanos_each_.store(0, std::memory_order_relaxed);
}

core::Duration DrainRate::TimeFor(size_t commands) const {
  const uint64_t nanos = nanos_each_.load(std::memory_order_relaxed) * commands;
  return std::chrono::duration_cast<core::Duration>(std::chrono::nanoseconds(nanos));
}

}  // namespace idempotency::keystore
