#include "service/trace_context.h"

#include <string>

#include "gtest/gtest.h"

namespace idempotency::service {
namespace {

const std::string kGood = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string With(size_t at, const std::string& text) {
  std::string changed = kGood;
  return changed.replace(at, text.size(), text);
}

TEST(TraceContextTest, TakesWhatTheRecommendationAllows) {
  for (const std::string& text :
       {kGood, With(53, "00"), With(53, "ff"), With(0, "01"), With(0, "cc"),
        With(0, "01") + "-what.comes=later", With(0, "fe") + "-"}) {
    EXPECT_TRUE(IsTraceparent(text)) << text;
  }
}

TEST(TraceContextTest, IgnoresEverythingElse) {
  for (const std::string& text :
       {std::string(), std::string("00"), kGood.substr(0, 54), kGood + "-00", kGood + "0",
        With(0, "ff"), With(0, "0g"), With(2, "_"), With(35, "_"), With(52, "_"),
        With(3, "0AF7651916CD43DD8448EB211C80319C"), With(3, std::string(32, '0')),
        With(36, std::string(16, '0')), With(36, "B7AD6B7169203331"), With(53, "0x"),
        With(0, "01") + "later", With(0, "01") + "-with space", With(0, "01") + "-\x7f",
        With(0, "01") + "-" + std::string(200, 'x')}) {
    EXPECT_FALSE(IsTraceparent(text)) << text;
  }
}

TEST(TraceContextTest, KnowsTheIdOfTheTrace) {
  const keystore::TraceId id = TraceContext{kGood}.id();
  EXPECT_EQ(std::string(id.data(), id.size()), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(TraceContext{}.id(), keystore::TraceId{});
}

}  // namespace
}  // namespace idempotency::service
