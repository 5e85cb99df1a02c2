#include "keystore/pushback.h"

#include <algorithm>
#include <cmath>

namespace idempotency::keystore {
namespace {

constexpr double kShortestMs = static_cast<double>(core::kOverloadRetryAfter.count());
constexpr double kLongestMs = static_cast<double>(core::kMaxOverloadRetryAfter.count());
// Steps of this size fall evenly between all before them.
constexpr double kGoldenStep = 0.6180339887498949;

}  // namespace

core::Duration Pushback::OnRefused(core::Time now) {
  absl::MutexLock lock(&mutex_);
  SetDelay(now);
  ++refused_;
  place_ += kGoldenStep;
  if (place_ >= 1) place_ -= 1;
  const double factor = 1 - kSpread + 2 * kSpread * place_;
  return core::Duration(static_cast<int64_t>(delay_ms_ * factor));
}

void Pushback::SetDelay(core::Time now) {
  const bool first = !core::IsSet(window_begin_);
  if (!first && now - window_begin_ < kWindow) return;
  const uint64_t served = served_.load(std::memory_order_relaxed);
  if (!first) {
    const double wanted = kRefusedPerServed * static_cast<double>(served - served_before_);
    const double growth = std::sqrt(static_cast<double>(refused_) / std::max(wanted, 1.0));
    // Since then more windows may have passed, in which nobody was refused.
    const auto quiet = static_cast<double>((now - window_begin_) / kWindow - 1);
    const double change =
        std::clamp(growth, kFastestFall, kFastestGrowth) * std::pow(kFastestFall, quiet);
    delay_ms_ = std::clamp(delay_ms_ * change, kShortestMs, kLongestMs);
  }
  window_begin_ = now;
  served_before_ = served;
  refused_ = 0;
}

}  // namespace idempotency::keystore
