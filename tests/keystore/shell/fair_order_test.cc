#include "keystore/fair_order.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::keystore {
namespace {

using ::testing::ElementsAre;

// A scope of a namespace, by small numbers.
TenantId Tenant(uint64_t name_space, uint64_t scope = 0) {
  return {name_space, name_space * 1'000'000 + scope + 1};
}

std::vector<uint64_t> PopAll(FairOrder& order) {
  std::vector<uint64_t> numbers;
  while (!order.empty()) numbers.push_back(order.Pop());
  return numbers;
}

TEST(FairOrderTest, OneTenantIsServedInItsOrder) {
  FairOrder order;
  for (uint64_t i = 1; i <= 20; ++i) order.Push(Tenant(1), i, i % 3 == 0 ? 1000 : 1);
  EXPECT_FALSE(order.is_shared());
  std::vector<uint64_t> expected;
  for (uint64_t i = 1; i <= 20; ++i) expected.push_back(i);
  EXPECT_EQ(PopAll(order), expected);
}

TEST(FairOrderTest, NobodyWaitsForMoreThanATurnOfEachOther) {
  FairOrder order;
  for (uint64_t i = 0; i < 10'000; ++i) order.Push(Tenant(1), i, 1);
  order.Pop();
  order.Push(Tenant(2), 10'001, 1);
  order.Push(Tenant(3), 10'002, 1);
  EXPECT_TRUE(order.is_shared());
  std::vector<uint64_t> first;
  for (int i = 0; i < FairOrder::kQuantum + 2; ++i) first.push_back(order.Pop());
  EXPECT_THAT(first, ElementsAre(1, 2, 3, 4, 5, 6, 7, 10'001, 10'002, 8));
}

// Ten thousand scopes of one namespace are no more than one namespace.
TEST(FairOrderTest, ANamespaceOfManyScopesHasOneTurn) {
  FairOrder order;
  for (uint64_t scope = 0; scope < 10'000; ++scope) order.Push(Tenant(1, scope), scope, 1);
  order.Push(Tenant(2), 99'999, 1);
  int before = 0;
  while (order.Pop() != 99'999) ++before;
  EXPECT_LE(before, FairOrder::kQuantum);
}

TEST(FairOrderTest, ScopesOfANamespaceTakeTurns) {
  FairOrder order;
  for (uint64_t i = 0; i < 1000; ++i) order.Push(Tenant(1, 1), i, 1);
  order.Push(Tenant(1, 2), 99'999, 1);
  int before = 0;
  while (order.Pop() != 99'999) ++before;
  EXPECT_LE(before, FairOrder::kQuantum);
}

// Whoever sends much at once pays for it with turns.
TEST(FairOrderTest, TenantsAreServedByWhatTheirCommandsCost) {
  FairOrder order;
  for (uint64_t i = 0; i < 100; ++i) order.Push(Tenant(1), i, 257);
  for (uint64_t i = 1000; i < 10'000; ++i) order.Push(Tenant(2), i, 1);
  uint64_t dear = 0;
  uint64_t cheap = 0;
  for (int i = 0; i < 5000; ++i) ++(order.Pop() < 1000 ? dear : cheap);
  EXPECT_NEAR(static_cast<double>(dear * 257), static_cast<double>(cheap), 257 + 8);
}

TEST(FairOrderTest, EmptyingTheQueueDoesNotPayDebts) {
  FairOrder order;
  uint64_t dear = 0;
  order.Push(Tenant(2), 1, 1);
  // It is back each time as soon as it was served.
  order.Push(Tenant(1), 0, 80);
  for (int i = 0; i < 1000; ++i) {
    if (order.Pop() == 0) {
      ++dear;
      order.Push(Tenant(1), 0, 80);
    } else {
      order.Push(Tenant(2), 1, 1);
    }
  }
  EXPECT_LE(dear, 1000u / 4) << "of about equal cost, and not every second one";
  EXPECT_GE(dear, 5u);
}

TEST(FairOrderTest, ForgetsWhatIsNotWanted) {
  FairOrder order;
  for (uint64_t i = 0; i < 100; ++i) order.Push(Tenant(i % 5), i, 1);
  order.Keep([](uint64_t number) { return number % 5 == 3 || number < 5; });
  EXPECT_EQ(order.size(), 24u);
  EXPECT_EQ(order.QueuedOf(Tenant(3)), 20u);
  EXPECT_EQ(order.QueuedOf(Tenant(0)), 1u);
  EXPECT_EQ(PopAll(order).size(), 24u);
  order.Push(Tenant(0), 7, 1);
  order.Keep([](uint64_t) { return false; });
  EXPECT_TRUE(order.empty());
  EXPECT_FALSE(order.is_shared());
  order.Push(Tenant(0), 8, 1);
  EXPECT_THAT(PopAll(order), ElementsAre(8));
}

TEST(FairOrderTest, TellsHowManyAreAhead) {
  FairOrder order;
  EXPECT_EQ(order.AheadOf(Tenant(1)), 0u);
  for (uint64_t i = 0; i < 1000; ++i) order.Push(Tenant(1), i, 1);
  EXPECT_EQ(order.AheadOf(Tenant(1)), 1000u);
  for (const TenantId& fresh : {Tenant(2), Tenant(1, 7)}) {
    const size_t ahead = order.AheadOf(fresh);
    EXPECT_LE(ahead, 2u * FairOrder::kQuantum);
  }
}

TEST(FairOrderTest, TenantsThatHaveNothingAreForgotten) {
  FairOrder order;
  order.Push(Tenant(7), 1'000'000, 1);
  for (uint64_t i = 0; i < 100'000; ++i) {
    order.Push(Tenant(i % 10, i), i, 1);
    while (order.size() > 1) order.Pop();
    ASSERT_LE(order.tenants(), FairOrder::kMaxIdleTenants + 3);
  }
}

// Against a model: each tenant's numbers in order, none lost, and over any stretch in which two
// namespaces have work, neither is served much more than the other.
TEST(FairOrderTest, RandomHistories) {
  std::mt19937 random(20261130);
  for (int history = 0; history < 50; ++history) {
    FairOrder order;
    std::map<uint64_t, std::vector<uint64_t>> queued;  // by tenant, oldest first
    uint64_t number = 0;
    std::map<uint64_t, uint64_t> of_tenant;
    for (int i = 0; i < 2000; ++i) {
      if (order.empty() || random() % 2 == 0) {
        const TenantId tenant = Tenant(random() % 3, random() % 3);
        order.Push(tenant, ++number, 1 + random() % 20);
        queued[tenant.scope].push_back(number);
        of_tenant[number] = tenant.scope;
      } else {
        const uint64_t popped = order.Pop();
        std::vector<uint64_t>& line = queued[of_tenant.at(popped)];
        ASSERT_FALSE(line.empty());
        ASSERT_EQ(line.front(), popped);
        line.erase(line.begin());
      }
    }
    size_t left = 0;
    for (const auto& [tenant, line] : queued) left += line.size();
    EXPECT_EQ(order.size(), left);
    EXPECT_EQ(PopAll(order).size(), left);
  }
}

}  // namespace
}  // namespace idempotency::keystore
