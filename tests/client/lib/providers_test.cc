// The profiles: all there, honest about what is verified, and read strictly.
#include "idempotency/providers.h"

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "client/src/provider_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/lib/vector_file.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ProvidersTest, AreTheseSeven) {
  EXPECT_THAT(ProviderNames(), ElementsAre("adyen", "no-idempotency-support", "paypal",
                                           "shopify-graphql", "square", "stripe-v1", "stripe-v2"));
  EXPECT_EQ(FindProvider("stripe"), nullptr);
  EXPECT_EQ(FindProvider(""), nullptr);
}

TEST(ProvidersTest, AreWhatTheFilesSay) {
  for (const std::string& name : ProviderNames()) {
    const auto parsed = internal::ParseProviderProfile(
        ReadFile(std::string(IDEMPOTENCY_CONTRACTS) + "/" + name + ".json"));
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status();
    EXPECT_EQ(*parsed, *FindProvider(name)) << name;
  }
}

TEST(ProvidersTest, EveryStatementSaysWhereItIsFrom) {
  for (const std::string& name : ProviderNames()) {
    for (const ProviderStatement& statement : FindProvider(name)->statements) {
      SCOPED_TRACE(name + ": " + statement.says);
      EXPECT_FALSE(statement.says.empty());
      EXPECT_TRUE(std::regex_match(statement.date, std::regex(R"(20\d\d-[01]\d-[0-3]\d)")));
      EXPECT_EQ(statement.verified, statement.basis == Basis::kVendor);
      const bool read = statement.basis == Basis::kVendor || statement.basis == Basis::kSecondHand;
      EXPECT_EQ(statement.source.rfind("https://", 0) == 0, read) << statement.source;
    }
  }
}

// What decides about a second effect must be backed by something, if only by judgement.
TEST(ProvidersTest, EverythingThatDecidesIsBacked) {
  for (const std::string& name : ProviderNames()) {
    if (name == "no-idempotency-support") continue;
    std::set<std::string> about;
    for (const ProviderStatement& statement : FindProvider(name)->statements) {
      about.insert(statement.about);
    }
    for (const char* needed : {"key", "scope", "retention", "protection_window", "replay",
                               "on_mismatch", "on_concurrent", "answers", "look_up"}) {
      EXPECT_EQ(about.count(needed), 1u) << name << " says nothing about " << needed;
    }
  }
}

TEST(ProvidersTest, TheWindowLeavesAMarginToTheRetention) {
  for (const std::string& name : ProviderNames()) {
    const ProviderProfile& profile = *FindProvider(name);
    if (!profile.retention) continue;
    ASSERT_TRUE(profile.protection_window) << name;
    EXPECT_LE(*profile.protection_window, *profile.retention - std::chrono::hours(1)) << name;
  }
  EXPECT_EQ(FindProvider("no-idempotency-support")->protection_window, std::nullopt);
}

TEST(ProvidersTest, SomeFactsOfSomeProfiles) {
  const ProviderProfile& stripe = *FindProvider("stripe-v1");
  EXPECT_EQ(stripe.key_place, KeyPlace::kHeader);
  EXPECT_EQ(stripe.key_field, "Idempotency-Key");
  EXPECT_EQ(stripe.key_max_bytes, 255u);
  EXPECT_EQ(stripe.retention, Duration(std::chrono::hours(24)));
  EXPECT_EQ(stripe.replay_header, "Idempotent-Replayed");
  EXPECT_EQ(FindProvider("shopify-graphql")->key_place, KeyPlace::kArgument);
  EXPECT_EQ(FindProvider("square")->key_place, KeyPlace::kBodyField);
  EXPECT_EQ(FindProvider("square")->key_max_bytes, 45u);
  EXPECT_EQ(FindProvider("square")->retention, std::nullopt);
  EXPECT_EQ(FindProvider("no-idempotency-support")->key_place, KeyPlace::kNone);
  EXPECT_TRUE(FindProvider("no-idempotency-support")->reconcile_first);
}

// A profile of no provider at all, to change one thing of.
constexpr char kProfile[] = R"json({
  "format": 1, "name": "n", "provider": "p", "api_version": "",
  "key": {"place": "header", "field": "f", "max_bytes": 9, "scope": "s", "endpoints": []},
  "memory": {"retention_seconds": 7200, "protection_window_seconds": 3600, "on_expiry": "e"},
  "repeats": {"replay": "r", "on_mismatch": "m", "on_concurrent": "c", "look_up": "l"},
  "answers": [{"status": "409", "means": "UNKNOWN", "cause": "OTHER", "why": "w"}],
  "statements": [{"about": "a", "says": "x", "basis": "vendor", "source": "https://x",
                  "date": "2026-01-01", "verified": true}]
})json";

std::string With(const std::string& old_text, const std::string& new_text) {
  std::string text = kProfile;
  const size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  return text.replace(at, old_text.size(), new_text);
}

TEST(ProviderParserTest, ReadsWhatIsRight) {
  const auto profile = internal::ParseProviderProfile(kProfile);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->key_max_bytes, 9u);
  EXPECT_EQ(profile->protection_window, Duration(std::chrono::hours(1)));
  EXPECT_EQ(profile->answers[0].status_first, 409);
  EXPECT_EQ(profile->answers[0].status_last, 409);
  EXPECT_TRUE(internal::ParseProviderProfile(With("\"409\"", "\"4xx\"")).ok());
  EXPECT_TRUE(internal::ParseProviderProfile(With("\"409\"", "\"400-499\"")).ok());
}

TEST(ProviderParserTest, SaysWhatIsWrong) {
  const struct {
    const char* old_text;
    const char* new_text;
    const char* problem;
  } rows[] = {
      {"\"format\": 1", "\"format\": 2", "format is not 1, the only one known"},
      {"\"name\": \"n\",", "", "name is missing"},
      {"\"name\": \"n\"", "\"name\": 1", "name is of another type"},
      {"\"header\"", "\"body\"", "key.place is none of the words that may stand here"},
      {"\"field\": \"f\",", "", "key.field is missing"},
      {"\"max_bytes\": 9", "\"max_bytes\": 9.5", "key.max_bytes must be a whole number"},
      {"\"max_bytes\": 9", "\"max_bytes\": -9", "key.max_bytes must be a whole number"},
      {"\"max_bytes\"", "\"max_byte\"", "key.max_byte is no field of a profile"},
      {"\"endpoints\": []", "\"endpoints\": [1]", "key.endpoints must hold texts"},
      {"\"409\"", "\"40\"", "answers[0].status is no status such as 409, 2xx or 400-499"},
      {"\"409\"", "\"600\"", "answers[0].status is no status such as 409, 2xx or 400-499"},
      {"\"409\"", "\"400-99\"", "answers[0].status is no status such as 409, 2xx or 400-499"},
      {"\"UNKNOWN\"", "\"MAYBE\"", "answers[0].means is none of the words that may stand here"},
      {"\"cause\": \"OTHER\",", "", "answers[0].cause is missing"},
      {"\"UNKNOWN\"", "\"FAILED\"", "answers[0].cause is no field of a profile"},
      {"\"source\": \"https://x\",", "", "statements[0].source is missing"},
      {"\"vendor\"", "\"memory\"",
       "statements[0].verified must be true for what the vendor says, and for nothing else"},
      {"\"verified\": true", "\"verified\": false",
       "statements[0].verified must be true for what the vendor says, and for nothing else"},
      {"{\"status\": \"409\"", "1, {\"status\": \"409\"", "answers[0] must be an object"},
  };
  for (const auto& row : rows) {
    const auto profile = internal::ParseProviderProfile(With(row.old_text, row.new_text));
    ASSERT_FALSE(profile.ok()) << row.problem;
    EXPECT_THAT(std::string(profile.status().message()), HasSubstr(row.problem)) << row.new_text;
  }
  EXPECT_FALSE(internal::ParseProviderProfile("").ok());
  EXPECT_FALSE(internal::ParseProviderProfile("[]").ok());
}

}  // namespace
}  // namespace idempotency
