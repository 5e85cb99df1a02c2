#include "tests/keystore/core/enumeration.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace idempotency::core {
namespace {

// IDEMPOTENCY_ENUMERATION_DEPTH=n goes deeper (or less deep) than the usual five commands.
int Depth() {
  const char* depth = std::getenv("IDEMPOTENCY_ENUMERATION_DEPTH");
  return depth == nullptr ? 5 : std::atoi(depth);
}

class EnumerationTest : public testing::TestWithParam<NamedPolicy> {};

TEST_P(EnumerationTest, EveryStepOnEveryReachableRecordKeepsTheProperties) {
  const Enumerated found = Enumerate(&Step, GetParam().policy, Depth());
  EXPECT_EQ(found.broken, "");
  RecordProperty("records", static_cast<int>(found.records));
  std::printf("%zu distinct records, %zu steps\n", found.records, found.steps);
}

INSTANTIATE_TEST_SUITE_P(Policies, EnumerationTest, testing::ValuesIn(EnumeratedPolicies()),
                         [](const auto& policy) { return policy.param.name; });

}  // namespace
}  // namespace idempotency::core
