// A property that cannot fail is no test: every planted mistake is noticed by the naive model,
// and those that break a property of a single step also by the enumeration.
#include "tests/keystore/core/wrong_steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/keystore/core/enumeration.h"
#include "tests/keystore/core/random_history.h"

namespace idempotency::core {
namespace {

constexpr int kDepth = 3;
constexpr uint64_t kHistories = 300;
constexpr size_t kSteps = 60;

std::string CaughtByEnumeration(StepFunction step) {
  for (const NamedPolicy& policy : EnumeratedPolicies()) {
    const std::string broken = Enumerate(step, policy.policy, kDepth).broken;
    if (!broken.empty()) return policy.name + ": " + broken;
  }
  return {};
}

std::string CaughtByNaiveModel(StepFunction step) {
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    std::string disagreement = Disagreement(step, seed, kSteps);
    if (!disagreement.empty()) return disagreement;
  }
  return {};
}

class WrongStepTest : public testing::TestWithParam<WrongStep> {};

TEST_P(WrongStepTest, IsCaught) {
  EXPECT_NE(CaughtByNaiveModel(GetParam().step), "");
  if (!GetParam().breaks_property) return;
  const std::string broken = CaughtByEnumeration(GetParam().step);
  EXPECT_NE(broken, "");
  std::printf("%s", broken.c_str());
}

INSTANTIATE_TEST_SUITE_P(Planted, WrongStepTest, testing::ValuesIn(WrongSteps()),
                         [](const auto& wrong) { return wrong.param.name; });

TEST(RightStep, IsNotCaughtByTheSameLook) { EXPECT_EQ(CaughtByEnumeration(&Step), ""); }

}  // namespace
}  // namespace idempotency::core
