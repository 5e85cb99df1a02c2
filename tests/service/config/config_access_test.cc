// The section access.
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/config.h"

namespace idempotency::service {
namespace {

constexpr char kAny[] = "{unlisted_namespaces: ALLOW, identity: {tokens_file: t}, access: ";

absl::StatusOr<std::shared_ptr<const Config>> Load(std::string_view rules) {
  return Config::LoadText(absl::StrCat(kAny, std::string(rules), "}"), "f.yaml");
}

std::string Problems(std::string_view rules) {
  const auto config = Load(rules);
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(ConfigAccessTest, SaysWhatTheFileSays) {
  const auto config = Load(R"([
    {identities: ["token:a", "token:b"], namespaces: [payments], roles: [CALLER, RECONCILER]},
    {identities: ["jwt:i:tenant:{scope}"], scope_from_identity: true, namespaces: ["*"],
     roles: [CALLER]},
    {identities: ["token:c"], namespaces: ["*"], scopes: [live], roles: [OPERATOR]}])");
  ASSERT_TRUE(config.ok()) << config.status();
  const AccessRules& rules = (*config)->access();
  const auto allows = [&](std::string who, Permission permission, std::string_view name_space,
                          std::string_view scope) {
    return rules.Allows({std::move(who), PrincipalKind::kStaticToken}, permission, name_space,
                        scope);
  };
  EXPECT_TRUE(allows("token:b", Permission::kOperate, "payments", "x"));
  EXPECT_TRUE(allows("token:b", Permission::kResolve, "payments", "x"));
  EXPECT_FALSE(allows("token:b", Permission::kDelete, "payments", "x"));
  EXPECT_TRUE(allows("jwt:i:tenant:acme", Permission::kOperate, "mail", "acme"));
  EXPECT_FALSE(allows("jwt:i:tenant:acme", Permission::kOperate, "mail", "other"));
  EXPECT_TRUE(allows("token:c", Permission::kDelete, "mail", "live"));
  EXPECT_FALSE(allows("token:c", Permission::kDelete, "mail", "test"));
}

TEST(ConfigAccessTest, LeftOutItAllowsNothing) {
  const auto config =
      Config::LoadText("{unlisted_namespaces: ALLOW, identity: {tokens_file: t}}", "f.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE((*config)->access().empty());
}

TEST(ConfigAccessTest, ProblemsNameTheFieldAndTheNextStep) {
  const struct {
    const char* name;
    const char* rules;
    const char* problems;
  } kCases[] = {
      {"nothing in it", "[{}]",
       "f.yaml:1: access[0].identities: missing: say who is meant, as "
       "spiffe://example.org/ns/payments/*\n"
       "f.yaml:1: access[0].namespaces: missing: list those that are meant, or write \"*\" for "
       "all\n"
       "f.yaml:1: access[0].roles: missing: write some of CALLER, READER, RECONCILER, OPERATOR, "
       "ADMIN"},
      {"a role there is not", "[{identities: ['**'], namespaces: ['*'], roles: [ROOT]}]",
       "f.yaml:1: access[0].roles[0]: 'ROOT' is not known: write one of CALLER, READER, "
       "RECONCILER, OPERATOR, ADMIN"},
      {"a name without its kind", "[{identities: [deployer], namespaces: ['*'], roles: [CALLER]}]",
       "f.yaml:1: access[0].identities[0]: matches no name: begin it with a scheme as spiffe://, "
       "or with dns:, token: or jwt:NAME:"},
      {"an empty pattern", "[{identities: ['**'], namespaces: [''], roles: [CALLER]}]",
       "f.yaml:1: access[0].namespaces[0]: is empty: write a pattern, or remove the line"},
      {"a place for the scope that nobody fills",
       "[{identities: ['token:{scope}'], namespaces: ['*'], roles: [CALLER]}]",
       "f.yaml:1: access[0].identities[0]: holds {scope}, which says nothing without "
       "scope_from_identity: true"},
      {"no place for the scope",
       "[{identities: ['token:a'], namespaces: ['*'], roles: [CALLER], scope_from_identity: true}]",
       "f.yaml:1: access[0].identities[0]: must hold {scope} exactly once: it is where "
       "scope_from_identity looks"},
      {"two of them",
       "[{identities: ['token:{scope}{scope}'], namespaces: ['*'], roles: [CALLER],"
       " scope_from_identity: true}]",
       "f.yaml:1: access[0].identities[0]: must hold {scope} exactly once: it is where "
       "scope_from_identity looks"},
      {"scopes twice",
       "[{identities: ['token:{scope}'], namespaces: ['*'], roles: [CALLER],"
       " scope_from_identity: true, scopes: [a]}]",
       "f.yaml:1: access[0].scopes: contradicts scope_from_identity, which allows one scope: "
       "remove one of the two"},
      {"the scope in a namespace",
       "[{identities: ['token:a'], namespaces: ['{scope}'], roles: [CALLER]}]",
       "f.yaml:1: access[0].namespaces: {scope} belongs into identities: remove it here"},
      {"a mapping", "{a: {}}",
       "f.yaml:1: access: is a mapping, but must be a list, one '- ' line for each item"},
  };
  for (const auto& row : kCases) EXPECT_EQ(Problems(row.rules), row.problems) << row.name;
}

TEST(ConfigAccessTest, RulesNeedSomebodyToProveWhoTheyAre) {
  const std::string rules = "access: [{identities: ['**'], namespaces: ['*'], roles: [ADMIN]}]\n";
  const auto config = Config::LoadText("unlisted_namespaces: ALLOW\n" + rules, "f.yaml");
  EXPECT_EQ(config.status().message(),
            "f.yaml:2: access: allows nobody anything while nobody has to prove who they are: "
            "configure identity or tls.client_ca_file, or remove this section");
  EXPECT_TRUE(Config::LoadText("unlisted_namespaces: ALLOW\n" + rules +
                                   "tls: {certificate_file: c, private_key_file: k,"
                                   " client_ca_file: a}\n",
                               "f.yaml")
                  .ok());
}

TEST(ConfigAccessTest, AListThatIsTooLongIsRefused) {
  std::string rules = "[";
  for (int i = 0; i <= kMaxAccessRules; ++i) rules += "{},";
  EXPECT_NE(Problems(rules + "]").find("access: 1001 are too many: write at most 1000"),
            std::string::npos);
}

}  // namespace
}  // namespace idempotency::service
