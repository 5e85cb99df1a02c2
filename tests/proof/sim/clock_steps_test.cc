// Clocks that are set, and machines that sleep: named cases, and a small size of the random ones.
#include "tests/proof/sim/clock_steps.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace idempotency::proof {

void PrintTo(const ClockStep& step, std::ostream* out) { *out << step.name; }

namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr core::Duration kYear = 24h * 365;

class ClockStepTest : public testing::TestWithParam<ClockStep> {};

// Looked at closely for half a day afterwards, then until everything is over.
TEST_P(ClockStepTest, EndsNothingEarlyAndGrantsNothingAgain) {
  std::vector<ClockStep> steps{{.name = "before", .elapsed = 10min}, GetParam()};
  for (int i = 0; i < 720; ++i) steps.push_back({.name = "after", .elapsed = 1min});
  for (int i = 0; i < 800; ++i) steps.push_back({.name = "long after", .elapsed = 1h});
  EXPECT_EQ(BrokenByClockSteps(steps), "");
}

INSTANTIATE_TEST_SUITE_P(
    Named, ClockStepTest,
    testing::Values(ClockStep{.name = "AnHourForward", .wall = 1h},
                    ClockStep{.name = "JustOverAnHourForward", .wall = 1h + 1ms},
                    ClockStep{.name = "AnHourBack", .wall = -1h},
                    ClockStep{.name = "AYearForward", .wall = kYear},
                    ClockStep{.name = "AYearBack", .wall = -kYear},
                    ClockStep{.name = "AYearForwardConfirmed", .wall = kYear, .confirmed = true},
                    ClockStep{.name = "SuspendedForThreeHours", .elapsed = 3h},
                    ClockStep{.name = "SuspendedForAMonth", .elapsed = 24h * 30},
                    ClockStep{.name = "RestartAfterADay", .elapsed = 24h, .restart = true},
                    ClockStep{.name = "RestartAYearForward", .wall = kYear, .restart = true}),
    [](const auto& step) { return step.param.name; });

TEST(ClockSteps, AThousandAtRandomEndNothingEarly) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(BrokenByClockSteps(RandomClockSteps(seed, 1'000)), "") << "seed " << seed;
  }
}

TEST(ClockSteps, TheSameSeedIsTheSameSteps) {
  const auto once = RandomClockSteps(7, 50);
  const auto again = RandomClockSteps(7, 50);
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].elapsed, again[i].elapsed);
    EXPECT_EQ(once[i].wall, again[i].wall);
  }
}

}  // namespace
}  // namespace idempotency::proof
