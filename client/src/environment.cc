#include <algorithm>
#include <utility>

#include "idempotency/policies.h"

namespace idempotency {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(100);

}  // namespace

void Environment::SleepUnless(std::stop_token stop, Duration span) {
  if (!stop.stop_possible()) return Sleep(span);
  const std::chrono::nanoseconds end = MonotonicNow() + std::chrono::nanoseconds(span);
  while (!stop.stop_requested()) {
    const Duration left = std::chrono::ceil<Duration>(end - MonotonicNow());
    if (left <= Duration(0)) return;
    Sleep(std::min(left, kLook));
  }
}

}  // namespace idempotency
