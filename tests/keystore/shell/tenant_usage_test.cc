#include "keystore/tenant_usage.h"

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace idempotency::keystore {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr core::Time kStart{seconds(1'800'000'000)};

core::Key KeyOf(const std::string& name_space, const std::string& scope, const std::string& key) {
  return core::Key{name_space, scope, key};
}

core::Policy Limited(core::Quota quota, core::Quota scope_quota = {}) {
  core::Policy policy;
  policy.quota = quota;
  policy.scope_quota = scope_quota;
  return policy;
}

core::Quota Open(uint64_t operations) {
  core::Quota quota;
  quota.open_operations = operations;
  return quota;
}
core::Quota PerSecond(uint64_t reserves) {
  core::Quota quota;
  quota.reserves_per_second = reserves;
  return quota;
}
core::Quota Bytes(uint64_t bytes) {
  core::Quota quota;
  quota.stored_bytes = bytes;
  return quota;
}

std::optional<QuotaKind> KindOf(const std::optional<QuotaExcess>& excess) {
  return excess ? std::optional(excess->kind) : std::nullopt;
}

TEST(TenantUsageTest, AsksNothingWhereNothingIsLimited) {
  TenantUsage usage;
  EXPECT_FALSE(usage.Ask(KeyOf("n", "s", "k"), core::Policy{}, kStart, true));
  EXPECT_EQ(usage.tenants(), 0u) << "and keeps nothing";
}

TEST(TenantUsageTest, AnOperationIsOpenOnceHoweverOftenItIsSaid) {
  TenantUsage usage;
  for (int i = 0; i < 2; ++i) usage.SetOpen(KeyOf("n", "s", "k"), true);
  usage.SetOpen(KeyOf("n", "t", "k"), true);
  EXPECT_EQ(usage.OpenIn("n", "s"), 1u);
  EXPECT_EQ(usage.OpenIn("n", std::nullopt), 2u);
  for (int i = 0; i < 2; ++i) usage.SetOpen(KeyOf("n", "s", "k"), false);
  EXPECT_EQ(usage.OpenIn("n", "s"), 0u);
  EXPECT_EQ(usage.OpenIn("n", std::nullopt), 1u);
}

TEST(TenantUsageTest, OpenOperationsAtTheBoundary) {
  TenantUsage usage;
  const core::Policy policy = Limited(Open(2));
  const core::Key key = KeyOf("n", "s", "new");
  usage.SetOpen(KeyOf("n", "s", "a"), true);
  EXPECT_FALSE(usage.Ask(key, policy, kStart, true));
  usage.SetOpen(KeyOf("n", "t", "b"), true);
  EXPECT_EQ(usage.Ask(key, policy, kStart, true),
            (QuotaExcess{QuotaKind::kOpenOperations, false, kOpenQuotaRetryAfter}));
  EXPECT_FALSE(usage.Ask(KeyOf("m", "s", "new"), policy, kStart, true)) << "another namespace";
  usage.SetOpen(KeyOf("n", "s", "a"), false);
  EXPECT_FALSE(usage.Ask(key, policy, kStart, true));
  EXPECT_TRUE(usage.Ask(key, Limited(Open(0)), kStart, true)) << "none is none";
}

TEST(TenantUsageTest, AScopeIsLimitedByItself) {
  TenantUsage usage;
  const core::Policy policy = Limited(Open(100), Open(1));
  usage.SetOpen(KeyOf("n", "s", "a"), true);
  EXPECT_EQ(usage.Ask(KeyOf("n", "s", "b"), policy, kStart, true),
            (QuotaExcess{QuotaKind::kOpenOperations, true, kOpenQuotaRetryAfter}));
  EXPECT_FALSE(usage.Ask(KeyOf("n", "t", "b"), policy, kStart, true));
  EXPECT_FALSE(usage.Ask(KeyOf("n", "", "b"), policy, kStart, true)) << "no scope is one, too";
}

TEST(TenantUsageTest, ReservesASecondSayWhenThereIsRoom) {
  TenantUsage usage;
  const core::Policy policy = Limited(PerSecond(4));
  const core::Key key = KeyOf("n", "s", "k");
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(usage.Ask(key, policy, kStart, true));
  EXPECT_EQ(usage.Ask(key, policy, kStart, true),
            (QuotaExcess{QuotaKind::kReserves, false, milliseconds(250)}));
  EXPECT_FALSE(usage.Ask(key, policy, kStart, false)) << "it was counted before";
  EXPECT_FALSE(usage.Ask(key, policy, kStart + milliseconds(250), true));
  EXPECT_EQ(usage.Ask(key, Limited(PerSecond(0)), kStart, true)->retry_after, kMaxQuotaRetryAfter);
}

// A tenant that is over its own rate must not use up the namespace's for the others.
TEST(TenantUsageTest, WhatAScopeMayNotSendIsNotTakenFromItsNamespace) {
  TenantUsage usage;
  const core::Policy policy = Limited(PerSecond(10), PerSecond(1));
  for (int i = 0; i < 1000; ++i) usage.Ask(KeyOf("n", "poison", "k"), policy, kStart, true);
  for (int i = 0; i < 9; ++i) {
    EXPECT_FALSE(usage.Ask(KeyOf("n", "s" + std::to_string(i), "k"), policy, kStart, true)) << i;
  }
  EXPECT_EQ(KindOf(usage.Ask(KeyOf("n", "last", "k"), policy, kStart, true)), QuotaKind::kReserves);
}

TEST(TenantUsageTest, BytesAreAskedForOnceASecond) {
  TenantUsage usage;
  uint64_t bytes = 99;
  int asked = 0;
  std::optional<std::string> scope_asked;
  usage.AskBytesOf([&](std::string_view, std::optional<std::string_view> scope) {
    ++asked;
    scope_asked = scope ? std::optional(std::string(*scope)) : std::nullopt;
    return std::optional(bytes);
  });
  const core::Key key = KeyOf("n", "s", "k");
  EXPECT_FALSE(usage.Ask(key, Limited(Bytes(100)), kStart, true));
  EXPECT_FALSE(scope_asked);
  bytes = 100;
  EXPECT_FALSE(usage.Ask(key, Limited(Bytes(100)), kStart + milliseconds(999), true));
  EXPECT_EQ(usage.Ask(key, Limited(Bytes(100)), kStart + seconds(1), true),
            (QuotaExcess{QuotaKind::kStoredBytes, false, kBytesQuotaRetryAfter}));
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(usage.Ask(key, Limited({}, Bytes(100)), kStart + seconds(1), true)->of_scope);
  EXPECT_EQ(scope_asked, "s");
}

TEST(TenantUsageTest, AnEngineThatCannotSayLimitsNothing) {
  TenantUsage usage;
  EXPECT_FALSE(usage.Ask(KeyOf("n", "s", "k"), Limited(Bytes(1)), kStart, true));
  usage.AskBytesOf([](std::string_view, std::optional<std::string_view>) { return std::nullopt; });
  EXPECT_FALSE(usage.Ask(KeyOf("n", "s", "k"), Limited(Bytes(1)), kStart, true));
}

// Scopes that somebody makes up without end.
TEST(TenantUsageTest, MemoryOfIdleScopesIsBounded) {
  TenantUsage usage;
  usage.SetOpen(KeyOf("n", "kept", "k"), true);
  const core::Policy policy = Limited(Open(1'000'000), PerSecond(1));
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = std::to_string(i);
    usage.Ask(KeyOf("n", text, "k"), policy, kStart, true);
    usage.SetOpen(KeyOf("n" + std::to_string(i % 10'000), text, "k"), true);
    usage.SetOpen(KeyOf("n" + std::to_string(i % 10'000), text, "k"), false);
    // Of each idle scope, and of the namespaces that they were in.
    ASSERT_LE(usage.tenants(), 2 * kMaxIdleTenants + 4);
  }
  EXPECT_EQ(usage.OpenIn("n", "kept"), 1u);
}

TEST(TenantUsageTest, AgreesWithASetOfKeys) {
  std::mt19937 random(20261130);
  TenantUsage usage;
  std::set<core::Key> open;
  for (int i = 0; i < 20'000; ++i) {
    const core::Key key =
        KeyOf("n" + std::to_string(random() % 3), "s" + std::to_string(random() % 4),
              "k" + std::to_string(random() % 50));
    const bool is_open = random() % 2 == 0;
    usage.SetOpen(key, is_open);
    is_open ? static_cast<void>(open.insert(key)) : static_cast<void>(open.erase(key));
  }
  for (int n = 0; n < 3; ++n) {
    uint64_t of_namespace = 0;
    const std::string name_space = "n" + std::to_string(n);
    for (int s = 0; s < 4; ++s) {
      uint64_t of_scope = 0;
      const std::string scope = "s" + std::to_string(s);
      for (const core::Key& key : open) {
        of_scope += key.name_space == name_space && key.scope == scope ? 1 : 0;
      }
      EXPECT_EQ(usage.OpenIn(name_space, scope), of_scope);
      of_namespace += of_scope;
    }
    EXPECT_EQ(usage.OpenIn(name_space, std::nullopt), of_namespace);
  }
}

}  // namespace
}  // namespace idempotency::keystore
