// What may be spent at once, and is given anew as time passes (a token bucket).
#ifndef IDEMPOTENCY_SERVICE_LISTENER_ALLOWANCE_H_
#define IDEMPOTENCY_SERVICE_LISTENER_ALLOWANCE_H_

#include <algorithm>
#include <cstdint>

#include "keystore/core/time.h"

namespace idempotency::service {

// Thread safety: none. `now` is time that only rises, of any origin.
class Allowance {
 public:
  struct Size {
    uint64_t at_once = 0;
    // Given anew in a window, evenly.
    uint64_t in_window = 0;
    core::Duration window{1'000};
  };

  // As good as no bound.
  static constexpr Size Unbounded() {
    return {.at_once = UINT32_MAX, .in_window = UINT32_MAX, .window = core::Duration(1'000)};
  }

  Allowance(const Size& size, core::Duration now)
      : size_(size), most_(Scaled(size.at_once)), left_(most_), given_at_(now) {}

  // Now. False where so much is not left, and nothing is from then on until some is given.
  bool Spend(uint64_t amount, core::Duration now) {
    left_ = std::min(left_ + Given(now), most_);
    return Take(amount);
  }
  // At any time since the last time: what has been given meanwhile may have been spent, however
  // much it was; only what is left over is bounded.
  bool SpendSpread(uint64_t amount, core::Duration now) {
    left_ += Given(now);
    const bool enough = Take(amount);
    left_ = std::min(left_, most_);
    return enough;
  }
  // Besides what time gives.
  void Give(uint64_t amount) { left_ = std::min(left_ + Scaled(amount), most_); }

 private:
  // More than any window: no sum gets near the end of its type.
  static constexpr core::Duration kLongest{3'600'000};

  // By the window, so that what is given in a moment is not rounded away.
  uint64_t Scaled(uint64_t amount) const {
    return amount * static_cast<uint64_t>(size_.window.count());
  }
  uint64_t Given(core::Duration now) {
    const core::Duration span = std::clamp(now - given_at_, core::Duration::zero(), kLongest);
    given_at_ = std::max(given_at_, now);
    return size_.in_window * static_cast<uint64_t>(span.count());
  }
  bool Take(uint64_t amount) {
    const bool enough = Scaled(amount) <= left_;
    left_ -= std::min(left_, Scaled(amount));
    return enough;
  }

  const Size size_;
  const uint64_t most_;
  uint64_t left_;
  core::Duration given_at_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_ALLOWANCE_H_
