#include "service/name_pattern.h"

#include <optional>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

TEST(NamePatternTest, MatchesByParts) {
  const struct {
    const char* pattern;
    const char* name;
    bool matches;
  } kCases[] = {
      {"payments", "payments", true},
      {"payments", "payments2", false},
      {"payments", "payment", false},
      {"payments", "Payments", false},
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "a.b-c", true},
      {"*", "a/b", false},
      {"*", "a:b", false},
      {"**", "a/b:c", true},
      {"**", "", true},
      {"pay*", "pay", true},
      {"pay*", "payments", true},
      {"*ments", "payments", true},
      {"p*m*s", "payments", true},
      {"p*m*s", "payment", false},
      {"*a*a*", "banana", true},
      {"*a*a*a*a*", "banana", false},
      {"spiffe://x/ns/*/sa/api", "spiffe://x/ns/pay/sa/api", true},
      {"spiffe://x/ns/*/sa/api", "spiffe://x/ns/pay/evil/sa/api", false},
      {"spiffe://x/ns/*", "spiffe://x/ns/pay/sa/api", false},
      {"spiffe://x/ns/**", "spiffe://x/ns/pay/sa/api", true},
      {"jwt:cluster:system:serviceaccount:pay:*", "jwt:cluster:system:serviceaccount:pay:api",
       true},
      {"jwt:cluster:system:serviceaccount:pay:*", "jwt:cluster:system:serviceaccount:pay:a:b",
       false},
      {"jwt:cluster:*", "jwt:cluster:system:serviceaccount:pay:api", false},
      // Nothing but the stars is special.
      {"a.c", "abc", false},
      {"a?c", "abc", false},
      {"[a]", "a", false},
      {"***", "a/b", true},
      {"**/x", "a/b/x", true},
      {"**/x", "x", false},
  };
  for (const auto& row : kCases) {
    EXPECT_EQ(NamePattern(row.pattern).Matches(row.name), row.matches)
        << row.pattern << " and " << row.name;
  }
}

TEST(NamePatternTest, ManyStarsDoNotTakeForEver) {
  std::string pattern;
  for (int i = 0; i < 250; ++i) pattern += "*a";
  EXPECT_FALSE(NamePattern(pattern + "b").Matches(std::string(512, 'a')));
  EXPECT_TRUE(NamePattern(pattern + "*").Matches(std::string(512, 'a')));
}

TEST(NamePatternTest, ThePlaceOfTheScopeIsTheScope) {
  const NamePattern pattern("spiffe://x/tenant/{scope}/sa/*");
  EXPECT_EQ(pattern.scope_places(), 1);
  const std::string_view of_a = "spiffe://x/tenant/a/sa/api";
  EXPECT_TRUE(pattern.Matches(of_a, "a"));
  EXPECT_FALSE(pattern.Matches(of_a, "b"));
  EXPECT_FALSE(pattern.Matches(of_a, "")) << "operations without a scope, and all of them";
  EXPECT_TRUE(pattern.Matches(of_a, std::nullopt)) << "some scope";
  EXPECT_FALSE(pattern.Matches("spiffe://x/tenant//sa/api", std::nullopt));
  EXPECT_FALSE(pattern.Matches("spiffe://x/tenant//sa/api", ""));
  EXPECT_FALSE(pattern.Matches("spiffe://x/other/a/sa/api", "a"));
}

TEST(NamePatternTest, AScopeCannotReachIntoOtherParts) {
  const NamePattern pattern("spiffe://x/{scope}/api");
  // Whoever is called x/a/b/api is not the tenant a/b.
  EXPECT_FALSE(pattern.Matches("spiffe://x/a/b/api", "a/b"));
  EXPECT_FALSE(pattern.Matches("spiffe://x/a/b/api", std::nullopt));
  EXPECT_FALSE(pattern.Matches("spiffe://x/a:b/api", "a:b"));
  // A star in a scope is a star.
  EXPECT_FALSE(pattern.Matches("spiffe://x/abc/api", "*"));
  EXPECT_FALSE(pattern.Matches("spiffe://x/abc/api", "{scope}"));
}

}  // namespace
}  // namespace idempotency::service
