#include "tests/keystore/core/enumeration.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace idempotency::core {
namespace {

constexpr int kDepth = 5;

class EnumerationTest : public testing::TestWithParam<NamedPolicy> {};

TEST_P(EnumerationTest, EveryStepOnEveryReachableRecordKeepsTheProperties) {
  const Enumerated found = Enumerate(&Step, GetParam().policy, kDepth);
  EXPECT_EQ(found.broken, "");
  RecordProperty("records", static_cast<int>(found.records));
  std::printf("%zu distinct records, %zu steps\n", found.records, found.steps);
}

INSTANTIATE_TEST_SUITE_P(Policies, EnumerationTest, testing::ValuesIn(EnumeratedPolicies()),
                         [](const auto& policy) { return policy.param.name; });

}  // namespace
}  // namespace idempotency::core
