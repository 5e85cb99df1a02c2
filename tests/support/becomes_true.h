// Waits for what another process does, and does not tell.
//
//   ASSERT_TRUE(BecomesTrue([&] { return Read(*engine, {key}).ok(); }));
#ifndef IDEMPOTENCY_TESTS_SUPPORT_BECOMES_TRUE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_BECOMES_TRUE_H_

#include <poll.h>

#include <functional>

namespace idempotency {

inline constexpr int kBecomesTrueMs = 120'000;
inline constexpr int kBecomesTruePollMs = 20;

// Asks until it holds; false where it does not after two minutes, and whatever asking took besides:
// long enough for a slow machine that does something else as well.
inline bool BecomesTrue(const std::function<bool()>& condition) {
  for (int ms = 0; ms < kBecomesTrueMs; ms += kBecomesTruePollMs) {
    if (condition()) return true;
    poll(nullptr, 0, kBecomesTruePollMs);
  }
  return condition();
}

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_SUPPORT_BECOMES_TRUE_H_
