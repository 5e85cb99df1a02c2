// The system's clocks and chance, as far as they can be held to anything.
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "idempotency/policies.h"

namespace idempotency {
namespace {

TEST(SystemEnvironmentTest, IsOne) { EXPECT_EQ(SystemEnvironment(), SystemEnvironment()); }

TEST(SystemEnvironmentTest, TimeGoesOn) {
  const auto environment = SystemEnvironment();
  const auto before = environment->MonotonicNow();
  environment->Sleep(Duration{2});
  EXPECT_GE(environment->MonotonicNow() - before, Duration{2});
  EXPECT_GT(before.count(), 0);
  // 2026, in which this was written.
  EXPECT_GT(environment->WallNow(), std::chrono::sys_days(std::chrono::year(2026) / 1 / 1));
}

TEST(SystemEnvironmentTest, SleepingForNothingReturns) {
  SystemEnvironment()->Sleep(Duration{0});
  SystemEnvironment()->Sleep(Duration{-5});
}

TEST(SystemEnvironmentTest, ChanceIsInRangeAndSpread) {
  std::set<double> seen;
  double least = 1.0;
  double most = 0.0;
  for (int i = 0; i < 1000; ++i) {
    const double random = SystemEnvironment()->Random();
    ASSERT_GE(random, 0.0);
    ASSERT_LT(random, 1.0);
    seen.insert(random);
    least = std::min(least, random);
    most = std::max(most, random);
  }
  EXPECT_EQ(seen.size(), 1000u);
  // A thousand fair numbers miss a tenth of the range once in 10^45 runs.
  EXPECT_LT(least, 0.1);
  EXPECT_GT(most, 0.9);
}

TEST(SystemEnvironmentTest, IdsAreHexadecimalAndNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = SystemEnvironment()->RandomId();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace idempotency
