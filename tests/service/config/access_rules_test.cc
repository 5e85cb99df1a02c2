// Who may do what: every role with every permission, and what binds a rule.
#include "service/access_rules.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

using Scope = std::optional<std::string_view>;

constexpr std::array kRoles = {AccessRole::kCaller, AccessRole::kReader, AccessRole::kReconciler,
                               AccessRole::kOperator, AccessRole::kAdmin};
constexpr std::array kAll = {Permission::kOperate,   Permission::kRead,   Permission::kInspect,
                             Permission::kResolve,   Permission::kDelete, Permission::kForceDelete,
                             Permission::kWholeStore};

std::vector<NamePattern> Patterns(std::initializer_list<std::string_view> texts) {
  return {texts.begin(), texts.end()};
}

Principal Named(std::string name) { return {std::move(name), PrincipalKind::kUri}; }

AccessRule Rule(std::string_view identity, std::string_view name_space, AccessRole role) {
  AccessRule rule;
  rule.identities = Patterns({identity});
  rule.namespaces = Patterns({name_space});
  rule.permissions = PermissionsOf(role);
  return rule;
}

TEST(AccessRulesTest, EveryRoleAndPermission) {
  // Operate, read, inspect, resolve, delete, delete by force, the whole store.
  const std::array<std::string_view, kRoles.size()> kTable = {
      "yynnnnn",  // caller
      "nyynnnn",  // reader
      "nyyynnn",  // reconciler
      "nyyyynn",  // operator
      "yyyyyyy",  // admin
  };
  ASSERT_EQ(kAll.size(), kPermissions);
  for (size_t role = 0; role < kRoles.size(); ++role) {
    const AccessRules rules({Rule("spiffe://x/a", "payments", kRoles[role])});
    for (size_t i = 0; i < kAll.size(); ++i) {
      const auto allows = [&](std::string_view who, std::string_view name_space, Scope scope) {
        return rules.Allows(Named(std::string(who)), kAll[i], name_space, scope);
      };
      const bool may = kTable[role][i] == 'y';
      for (const Scope scope : {Scope("acct"), Scope(""), Scope()}) {
        EXPECT_EQ(allows("spiffe://x/a", "payments", scope), may) << role << " " << i;
        EXPECT_FALSE(allows("spiffe://x/a", "mail", scope)) << role << " " << i;
        EXPECT_FALSE(allows("spiffe://x/b", "payments", scope)) << role << " " << i;
      }
    }
  }
}

TEST(AccessRulesTest, WithoutARuleNobodyMayDoAnything) {
  for (const Permission permission : kAll) {
    EXPECT_FALSE(AccessRules().Allows(Named("spiffe://x/a"), permission, "payments", ""));
  }
}

TEST(AccessRulesTest, WhoHasProvedNothingMatchesNoPattern) {
  const AccessRules rules({Rule("**", "**", AccessRole::kAdmin)});
  EXPECT_TRUE(rules.Allows(Named("spiffe://x/a"), Permission::kDelete, "payments", ""));
  EXPECT_FALSE(rules.Allows(Principal{}, Permission::kDelete, "payments", ""));
  EXPECT_FALSE(rules.Allows({"", PrincipalKind::kUri}, Permission::kDelete, "payments", ""));
  EXPECT_FALSE(
      rules.Allows({"spiffe://x/a", PrincipalKind::kNobody}, Permission::kDelete, "payments", ""));
}

TEST(AccessRulesTest, RulesAddUp) {
  const AccessRules rules({Rule("spiffe://x/a", "payments", AccessRole::kCaller),
                           Rule("spiffe://x/*", "*", AccessRole::kReader)});
  EXPECT_TRUE(rules.Allows(Named("spiffe://x/a"), Permission::kOperate, "payments", "s"));
  EXPECT_TRUE(rules.Allows(Named("spiffe://x/a"), Permission::kInspect, "payments", "s"));
  EXPECT_FALSE(rules.Allows(Named("spiffe://x/a"), Permission::kOperate, "mail", "s"));
  EXPECT_FALSE(rules.Allows(Named("spiffe://x/a"), Permission::kResolve, "payments", "s"));
}

TEST(AccessRulesTest, ScopesBindARule) {
  AccessRule rule = Rule("spiffe://x/a", "payments", AccessRole::kAdmin);
  rule.scopes = Patterns({"acct-*", "live"});
  const AccessRules rules({rule});
  const auto allows = [&](Scope scope) {
    return rules.Allows(Named("spiffe://x/a"), Permission::kInspect, "payments", scope);
  };
  EXPECT_TRUE(allows("acct-1"));
  EXPECT_TRUE(allows("live"));
  EXPECT_FALSE(allows("test"));
  EXPECT_FALSE(allows("")) << "a list of all scopes, or operations without one";
  EXPECT_TRUE(allows(std::nullopt)) << "that there is such a namespace";
}

TEST(AccessRulesTest, TheScopeIsWhoCalls) {
  AccessRule rule = Rule("spiffe://x/tenant/{scope}/*", "payments", AccessRole::kCaller);
  rule.scope_from_identity = true;
  const AccessRules rules({rule});
  const auto allows = [&](std::string who, Scope scope) {
    return rules.Allows(Named(std::move(who)), Permission::kOperate, "payments", scope);
  };
  EXPECT_TRUE(allows("spiffe://x/tenant/a/api", "a"));
  EXPECT_FALSE(allows("spiffe://x/tenant/a/api", "b"));
  EXPECT_FALSE(allows("spiffe://x/tenant/a/api", ""));
  EXPECT_FALSE(allows("spiffe://x/tenant/a/b/api", "a/b"));
  EXPECT_TRUE(allows("spiffe://x/tenant/a/api", std::nullopt));
  EXPECT_FALSE(allows("spiffe://x/other/a/api", std::nullopt));
}

}  // namespace
}  // namespace idempotency::service
