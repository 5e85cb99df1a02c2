// How often something may happen: so often a second over time, and so often at once after a pause.
// A pure decision; the time is an argument. It counts in thousandths, so that nothing is rounded.
//
//   TokenBucket bucket;                    // full
//   if (bucket.Take({.per_second = 10, .burst = 20}, now)) ...
//
// The rate is an argument, too: a new one holds from the next call on. Time that runs backwards
// counts as standing still.
#ifndef IDEMPOTENCY_KEYSTORE_TOKEN_BUCKET_H_
#define IDEMPOTENCY_KEYSTORE_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstdint>

#include "keystore/core/time.h"

namespace idempotency::keystore {

// Both at most 10^9.
struct Rate {
  uint64_t per_second = 1;
  uint64_t burst = 1;

  friend bool operator==(const Rate&, const Rate&) = default;
};

// Thread safety: none.
class TokenBucket {
 public:
  // True: there was one, and it is taken.
  bool Take(const Rate& rate, core::Time now) {
    Fill(rate, now);
    if (thousandths_ < kOne) return false;
    thousandths_ -= kOne;
    return true;
  }

  // How long until there is one, if nobody takes any meanwhile; Duration::max(): there never is.
  core::Duration Wait(const Rate& rate, core::Time now) {
    Fill(rate, now);
    if (thousandths_ >= kOne) return core::Duration::zero();
    if (rate.per_second == 0 || rate.burst == 0) return core::Duration::max();
    const uint64_t missing = kOne - thousandths_;
    return core::Duration((missing + rate.per_second - 1) / rate.per_second);
  }

  // Whether it is like a new one, so that nothing is lost with it.
  bool IsFull(const Rate& rate, core::Time now) {
    Fill(rate, now);
    return thousandths_ == rate.burst * kOne;
  }

 private:
  static constexpr uint64_t kOne = 1000;

  void Fill(const Rate& rate, core::Time now) {
    const uint64_t most = rate.burst * kOne;
    if (!used_) thousandths_ = most;
    used_ = true;
    if (now > at_) {
      // A millisecond brings per_second thousandths. Longer than it takes to fill it is no more.
      const auto elapsed = static_cast<uint64_t>((now - at_).count());
      const uint64_t enough = rate.per_second == 0 ? 0 : most / rate.per_second + 1;
      thousandths_ += std::min(elapsed, enough) * rate.per_second;
      at_ = now;
    }
    thousandths_ = std::min(thousandths_, most);
  }

  bool used_ = false;
  uint64_t thousandths_ = 0;
  core::Time at_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_TOKEN_BUCKET_H_
