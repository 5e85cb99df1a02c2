#include "service/config.h"

#include <chrono>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "service/config_rules.h"

namespace idempotency::service {
namespace {

using core::kDay;
using core::Policy;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::shared_ptr<const Config> Good(std::string_view text) {
  auto config = Config::LoadText(text, "f.yaml");
  EXPECT_TRUE(config.ok()) << config.status() << "\n" << text;
  return config.ok() ? *std::move(config) : Config::BuiltIn();
}

// Every problem of a text, a line each; empty where it is good.
std::string Problems(std::string_view text) {
  const auto config = Config::LoadText(text, "f.yaml");
  if (config.ok()) return "";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(config.status().message());
}

struct Case {
  const char* name;
  std::string yaml;
  std::string expected;
};

template <size_t n>
void ExpectProblems(const Case (&cases)[n]) {
  for (const Case& row : cases) EXPECT_EQ(Problems(row.yaml), row.expected) << row.name;
}

// A namespace `n` that sets one thing, on line 3.
std::string Setting(std::string_view field) {
  return absl::StrCat("namespaces:\n- name: n\n  ", std::string(field), "\n");
}

TEST(ConfigRangesTest, OfDurations) {
  const struct {
    const char* field;
    const char* least;  // what is written for it
    const char* below;
    const char* below_problem;
    const char* most;
    const char* above;
    const char* above_problem;
    // What else has to be set for the boundaries to contradict nothing.
    const char* with;
  } kRows[] = {
      {"default_lease_duration", "1ms", "0s", "0s is too short: write at least 1ms", "400d",
       "400d1ms", "400d1ms is too long: write at most 400d",
       "  max_lease_duration: 400d\n  max_hold_duration: 400d\n"},
      {"max_lease_duration", "1ms", "0s", "0s is too short: write at least 1ms", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", "  default_lease_duration: 1ms\n"},
      {"max_hold_duration", "1ms", "0s", "0s is too short: write at least 1ms", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", "  default_lease_duration: 1ms\n"},
      {"max_wait_duration", "0s", "-1ms", "-1ms is negative: write at least 0s", "1h", "1h1ms",
       "1h1ms is too long: write at most 1h", ""},
      {"retention", "0s", "-1ms", "-1ms is negative: write at least 0s", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", ""},
      {"max_retention", "0s", "-1ms", "-1ms is negative: write at least 0s", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", "  retention: 0s\n"},
      {"expired_memory", "0s", "-1ms", "-1ms is negative: write at least 0s", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", ""},
      {"protection_window", "0s", "-1ms", "-1ms is negative: write at least 0s", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", ""},
      {"initial_backoff", "0s", "-1ms", "-1ms is negative: write at least 0s", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", "  max_backoff: 400d\n"},
      {"max_backoff", "0s", "-1ms", "-1ms is negative: write at least 0s", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", "  initial_backoff: 0s\n"},
      {"settle_duration", "0s", "-1ms", "-1ms is negative: write at least 0s", "400d", "400d1ms",
       "400d1ms is too long: write at most 400d", ""},
  };
  for (const auto& row : kRows) {
    const auto text = [&](const char* value) {
      return absl::StrCat("namespaces:\n- name: n\n  ", row.field, ": ", value, "\n", row.with);
    };
    const std::string at = absl::StrCat("f.yaml:3: namespaces[0].", row.field, ": ");
    EXPECT_EQ(Problems(text(row.least)), "") << row.field;
    EXPECT_EQ(Problems(text(row.below)), at + row.below_problem) << row.field;
    EXPECT_EQ(Problems(text(row.most)), "") << row.field;
    EXPECT_EQ(Problems(text(row.above)), at + row.above_problem) << row.field;
  }
}

// So that no duration is left without a range.
TEST(ConfigRangesTest, EveryDurationHasOne) {
  const google::protobuf::Descriptor* type = config::v1::Namespace::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    if (type->field(i)->message_type() != google::protobuf::Duration::descriptor()) continue;
    const std::string& field = type->field(i)->name();
    EXPECT_EQ(Problems(Setting(field + ": -1s")).find("-1s is negative") != std::string::npos, true)
        << field;
  }
}

TEST(ConfigRangesTest, OfNumbersAndTexts) {
  const std::string kilobyte(1024, 'x');
  std::string endpoints;
  for (int i = 0; i < kMaxConfigEndpoints; ++i) endpoints += "a,";
  const Case kRows[] = {
      {"key, least", Setting("max_key_bytes: 1"), ""},
      {"key, none", Setting("max_key_bytes: 0"),
       "f.yaml:3: namespaces[0].max_key_bytes: 0 is too small: write at least 1"},
      {"key, most", Setting("max_key_bytes: 255"), ""},
      {"key, more", Setting("max_key_bytes: 256"),
       "f.yaml:3: namespaces[0].max_key_bytes: 256 is too large: write at most 255"},
      {"response, none", Setting("max_response_bytes: 0"), ""},
      {"response, most", Setting("max_response_bytes: 3145728"), ""},
      {"response, more", Setting("max_response_bytes: 3145729"),
       "f.yaml:3: namespaces[0].max_response_bytes: 3145729 is too large: write at most 3145728"},
      {"attempts, most", Setting("max_attempts: 1000"), ""},
      {"attempts, more", Setting("max_attempts: 1001"),
       "f.yaml:3: namespaces[0].max_attempts: 1001 is too large: write at most 1000"},
      {"reserves, most", Setting("quota: {reserves_per_second: 1000000}"), ""},
      {"reserves, more", Setting("quota: {reserves_per_second: 1000001}"),
       "f.yaml:3: namespaces[0].quota.reserves_per_second: 1000001 is too large: write at most "
       "1000000"},
      {"burst, none", Setting("scope_quota: {reserves_per_second: 1, reserve_burst: 0}"),
       "f.yaml:3: namespaces[0].scope_quota.reserve_burst: 0 is too small: write at least 1"},
      {"burst alone", Setting("quota: {reserve_burst: 1}"),
       "f.yaml:2: namespaces[0]: quota.reserve_burst needs reserves_per_second: write how many "
       "there may be over time"},
      {"bytes, many", Setting("quota: {stored_bytes: 18446744073709551614}"), ""},
      {"bytes, more", Setting("quota: {stored_bytes: 18446744073709551616}"),
       "f.yaml:3: namespaces[0].quota.stored_bytes: '18446744073709551616' is not a whole number "
       "up to 18446744073709551615: write digits only"},
      {"description, most", Setting("description: " + kilobyte), ""},
      {"description, more", Setting("description: x" + kilobyte),
       "f.yaml:3: namespaces[0].description: 1025 bytes are too long: write at most 1024"},
      {"provider's text, most", Setting("provider: {on_expiry: " + kilobyte + "}"), ""},
      {"provider's text, more", Setting("provider: {on_expiry: x" + kilobyte + "}"),
       "f.yaml:3: namespaces[0].provider.on_expiry: 1025 bytes are too long: write at most 1024"},
      {"endpoint, more", Setting("provider:\n    endpoints:\n    - a\n    - x" + kilobyte),
       "f.yaml:6: namespaces[0].provider.endpoints[1]: 1025 bytes are too long: write at most "
       "1024"},
      {"endpoints, most", Setting("provider: {endpoints: [" + endpoints + "]}"), ""},
      {"endpoints, more", Setting("provider: {endpoints: [" + endpoints + "a]}"),
       "f.yaml:3: namespaces[0].provider.endpoints: 65 are too many: write at most 64"},
      {"date", Setting("provider: {verified_date: 2026-11-29}"), ""},
      {"no date", Setting("provider: {verified_date: last week}"),
       "f.yaml:3: namespaces[0].provider.verified_date: 'last week' is not a date: write it as "
       "YYYY-MM-DD"},
      {"no month", Setting("provider: {verified_date: 2026-13-01}"),
       "f.yaml:3: namespaces[0].provider.verified_date: '2026-13-01' is not a date: write it as "
       "YYYY-MM-DD"},
      {"no day", Setting("provider: {verified_date: 2026-01-00}"),
       "f.yaml:3: namespaces[0].provider.verified_date: '2026-01-00' is not a date: write it as "
       "YYYY-MM-DD"},
      {"in the defaults", "unlisted_namespaces: ALLOW\ndefaults:\n  max_key_bytes: 0\n",
       "f.yaml:3: defaults.max_key_bytes: 0 is too small: write at least 1"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigRangesTest, OfLimits) {
  const auto with = [](const char* limits) {
    return absl::StrCat("unlisted_namespaces: ALLOW\nlimits: {", limits, "}");
  };
  const Case kRows[] = {
      {"none wait", with("max_waiters: 0"), ""},
      {"waiters, most", with("max_waiters: 1000000"), ""},
      {"waiters, more", with("max_waiters: 1000001"),
       "f.yaml:2: limits.max_waiters: 1000001 is too large: write at most 1000000"},
      {"per key, as many", with("max_waiters: 5, max_waiters_per_key: 5"), ""},
      {"per key, more", with("max_waiters: 5, max_waiters_per_key: 6"),
       "f.yaml:2: limits.max_waiters_per_key: 6 is more than max_waiters 5: lower the first or "
       "raise the second"},
      {"per key, more than there is", with("max_waiters_per_key: 1000001"),
       "f.yaml:2: limits.max_waiters_per_key: 1000001 is too large: write at most 1000000"},
      {"per key, over the built-in total", with("max_waiters_per_key: 10001"),
       "f.yaml:2: limits.max_waiters_per_key: 10001 is more than max_waiters 10000: lower the "
       "first or raise the second"},
      {"queue, least", with("max_queued_commands: 1"), ""},
      {"queue, none", with("max_queued_commands: 0"),
       "f.yaml:2: limits.max_queued_commands: 0 is too small: write at least 1"},
      {"queue, most", with("max_queued_commands: 1000000"), ""},
      {"queue, more", with("max_queued_commands: 1000001"),
       "f.yaml:2: limits.max_queued_commands: 1000001 is too large: write at most 1000000"},
  };
  ExpectProblems(kRows);
}

constexpr char kNeedsWindow[] =
    "RETRY_SAME_KEY needs protection_window: write how long the provider recognises a key, less "
    "a margin";
constexpr char kNeedsAttempts[] =
    "RETRY_SAME_KEY needs max_attempts: write how many attempts there may be in all, at least 1";

TEST(ConfigRulesTest, BetweenDurations) {
  const std::string at = "f.yaml:2: namespaces[0]: ";
  const Case kRows[] = {
      {"lease as long as the longest",
       Setting("default_lease_duration: 5m\n  max_lease_duration: 5m"), ""},
      {"lease over the longest", Setting("default_lease_duration: 5m1ms\n  max_lease_duration: 5m"),
       at + "default_lease_duration 5m1ms is longer than max_lease_duration 5m: shorten the first "
            "or lengthen the second"},
      {"lease over the built-in longest",
       Setting("default_lease_duration: 25h\n  max_hold_duration: 25h"),
       at + "default_lease_duration 1d1h is longer than max_lease_duration 1d: shorten the first "
            "or lengthen the second"},
      {"lease as long as the hold", Setting("default_lease_duration: 5m\n  max_hold_duration: 5m"),
       ""},
      {"lease over the hold", Setting("max_hold_duration: 29s"),
       at + "default_lease_duration 30s is longer than max_hold_duration 29s: shorten the first or "
            "lengthen the second"},
      {"retention as long as the longest", Setting("retention: 2d\n  max_retention: 2d"), ""},
      {"retention over the longest", Setting("max_retention: 23h"),
       at + "retention 1d is longer than max_retention 23h: shorten the first or lengthen the "
            "second"},
      {"backoff as long as the longest", Setting("initial_backoff: 5m"), ""},
      {"backoff over the longest", Setting("initial_backoff: 6m"),
       at + "initial_backoff 6m is longer than max_backoff 5m: shorten the first or lengthen the "
            "second"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigRulesTest, OfRetryingWithTheSameKey) {
  const std::string at = "f.yaml:2: namespaces[0]: ";
  const std::string retry = "unknown_outcome: RETRY_SAME_KEY\n  ";
  const Case kRows[] = {
      {"protection as long as the backoff",
       Setting(retry + "protection_window: 1s\n  max_attempts: 2"), ""},
      {"protection shorter than the backoff",
       Setting(retry + "protection_window: 999ms\n  max_attempts: 2"),
       at + "initial_backoff 1s is longer than protection_window 999ms: shorten the first or "
            "lengthen the second"},
      {"protection shorter, though it does not count", Setting("protection_window: 999ms"),
       at + "initial_backoff 1s is longer than protection_window 999ms: shorten the first or "
            "lengthen the second"},
      {"retry without a window", Setting(retry + "max_attempts: 2"), at + kNeedsWindow},
      {"retry with a window of nothing",
       Setting(retry + "max_attempts: 2\n  protection_window: 0s"), at + kNeedsWindow},
      {"retry without attempts", Setting(retry + "protection_window: 1h"), at + kNeedsAttempts},
      {"retry with no attempt", Setting(retry + "protection_window: 1h\n  max_attempts: 0"),
       at + kNeedsAttempts},
      {"retry with one attempt", Setting(retry + "protection_window: 1h\n  max_attempts: 1"), ""},
      {"retry with neither", Setting("unknown_outcome: RETRY_SAME_KEY"),
       at + kNeedsWindow + "\n" + at + kNeedsAttempts},
      {"other policies need neither", Setting("unknown_outcome: RERUN"), ""},
  };
  ExpectProblems(kRows);
}

TEST(ConfigRulesTest, OfWhatHoldsInTheEnd) {
  const Case kRows[] = {
      {"against the preset", Setting("preset: STRIPE_V1\n  max_attempts: 0"),
       std::string("f.yaml:2: namespaces[0]: ") + kNeedsAttempts},
      {"preset against the defaults",
       "defaults: {max_retention: 2d}\nnamespaces:\n- name: n\n  preset: STRIPE_V1\n",
       "f.yaml:3: namespaces[0]: retention 7d is longer than max_retention 2d: shorten the first "
       "or lengthen the second"},
      {"own against the defaults",
       "defaults: {max_lease_duration: 1m}\nnamespaces:\n- name: n\n  default_lease_duration: 2m\n",
       "f.yaml:3: namespaces[0]: default_lease_duration 2m is longer than max_lease_duration 1m: "
       "shorten the first or lengthen the second"},
      {"defaults within themselves",
       "unlisted_namespaces: ALLOW\ndefaults:\n  max_lease_duration: 29s\n",
       "f.yaml:2: defaults: default_lease_duration 30s is longer than max_lease_duration 29s: "
       "shorten the first or lengthen the second"},
      {"a namespace that only inherits it says nothing more",
       "defaults: {max_lease_duration: 29s}\nnamespaces:\n- name: n\n- name: m\n",
       "f.yaml:1: defaults: default_lease_duration 30s is longer than max_lease_duration 29s: "
       "shorten the first or lengthen the second"},
      {"a namespace may mend what its preset brings",
       "defaults: {max_retention: 2d}\nnamespaces:\n- name: n\n  preset: STRIPE_V1\n"
       "  retention: 2d\n",
       ""},
  };
  ExpectProblems(kRows);
}

TEST(ConfigRulesTest, OneMistakeIsOneLine) {
  const Case kRows[] = {
      {"a lease that is too long in itself", Setting("default_lease_duration: 500d"),
       "f.yaml:3: namespaces[0].default_lease_duration: 500d is too long: write at most 400d"},
      {"a window that cannot be read",
       Setting("unknown_outcome: RETRY_SAME_KEY\n  max_attempts: 2\n  protection_window: 24"),
       "f.yaml:5: namespaces[0].protection_window: '24' has no unit: write 24s, 24m or 24h for "
       "seconds, minutes or hours"},
      {"an unknown preset with what it should have brought",
       Setting("preset: STRIPE\n  unknown_outcome: RETRY_SAME_KEY"),
       "f.yaml:3: namespaces[0].preset: 'STRIPE' is not known: write one of STRIPE_V1, "
       "WEBHOOK_INBOX, ACTIVE_RUN, NO_PROVIDER_SUPPORT"},
      {"a default with a problem, inherited",
       "defaults:\n  max_lease_duration: 0s\nnamespaces:\n- name: n\n",
       "f.yaml:2: defaults.max_lease_duration: 0s is too short: write at least 1ms"},
      {"a namespace that is none", "namespaces:\n- payments\n",
       "f.yaml:2: namespaces[0]: is a single value, but must be fields with their values, indented "
       "below it"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigRulesTest, OfNames) {
  constexpr char kNoName[] =
      " is no name for a namespace: write 1-64 of a-z, 0-9, '.', '_' and '-', a letter first";
  const std::string longest(64, 'a');
  const Case kRows[] = {
      {"shortest", "namespaces: [{name: a}]", ""},
      {"all that is allowed", "namespaces: [{name: az09._-}]", ""},
      {"longest", "namespaces: [{name: " + longest + "}]", ""},
      {"longer", "namespaces: [{name: b" + longest + "}]",
       "f.yaml:1: namespaces[0].name: 'b" + longest.substr(1) + "...'" + kNoName},
      {"empty", "namespaces: [{name: ''}]",
       std::string("f.yaml:1: namespaces[0].name: ''") + kNoName},
      {"capital", "namespaces: [{name: aB}]",
       std::string("f.yaml:1: namespaces[0].name: 'aB'") + kNoName},
      {"digit first", "namespaces: [{name: 1a}]",
       std::string("f.yaml:1: namespaces[0].name: '1a'") + kNoName},
      {"slash", "namespaces: [{name: a/b}]",
       std::string("f.yaml:1: namespaces[0].name: 'a/b'") + kNoName},
      {"NUL", "namespaces: [{name: \"a\\0\"}]",
       std::string("f.yaml:1: namespaces[0].name: 'a\\000'") + kNoName},
      {"missing", "namespaces:\n- name: a\n- retention: 1h\n",
       "f.yaml:3: namespaces[1].name: missing: give it a name"},
      {"twice", "namespaces:\n- name: a\n- name: b\n- name: a\n",
       "f.yaml:4: namespaces[2].name: 'a' is already defined on line 2: rename or remove one of "
       "the two"},
      {"by name", "namespaces: {a: {}, 1a: {}}",
       std::string("f.yaml:1: namespaces[1].name: '1a'") + kNoName},
      {"belongs to no defaults", "defaults: {name: a, description: b, preset: STRIPE_V1}",
       "f.yaml:1: defaults.name: belongs to one namespace: move it there, or remove it\n"
       "f.yaml:1: defaults.description: belongs to one namespace: move it there, or remove it\n"
       "f.yaml:1: defaults.preset: belongs to one namespace: move it there, or remove it"},
  };
  ExpectProblems(kRows);
}

TEST(ConfigRulesTest, NumberOfNamespaces) {
  std::string text = "namespaces:\n";
  for (int i = 0; i < kMaxConfigNamespaces; ++i) absl::StrAppend(&text, "- name: n", i, "\n");
  EXPECT_EQ(Problems(text), "");
  EXPECT_EQ(Problems(text + "- name: m\n"),
            "f.yaml:1: namespaces: 1001 are too many: write at most 1000");
}

TEST(ConfigRulesTest, AllProblemsAtOnce) {
  EXPECT_EQ(Problems("defaults:\n"
                     "  retention: 24\n"
                     "namespaces:\n"
                     "- name: Payments\n"
                     "  max_atempts: 3\n"
                     "- name: b\n"
                     "  max_hold_duration: 10s\n"
                     "  max_key_bytes: 0\n"
                     "limits: {max_queued_commands: 0}\n"),
            "f.yaml:2: defaults.retention: '24' has no unit: write 24s, 24m or 24h for seconds, "
            "minutes or hours\n"
            "f.yaml:4: namespaces[0].name: 'Payments' is no name for a namespace: write 1-64 of "
            "a-z, 0-9, '.', '_' and '-', a letter first\n"
            "f.yaml:5: namespaces[0].max_atempts: unknown field: did you mean max_attempts?\n"
            "f.yaml:6: namespaces[1]: default_lease_duration 30s is longer than max_hold_duration "
            "10s: shorten the first or lengthen the second\n"
            "f.yaml:8: namespaces[1].max_key_bytes: 0 is too small: write at least 1\n"
            "f.yaml:9: limits.max_queued_commands: 0 is too small: write at least 1");
}

TEST(ConfigTest, AFileThatAcceptsNothingHasToSaySo) {
  constexpr char kProblem[] =
      "f.yaml: no namespace would accept anything: list some below namespaces, or write "
      "unlisted_namespaces: ALLOW (or REFUSE, if that is what is meant)";
  const Case kRows[] = {
      {"empty", "", kProblem},
      {"comments", "# later\n", kProblem},
      {"defaults alone", "defaults: {retention: 1h}", kProblem},
      {"an empty list", "namespaces: []", kProblem},
      {"meant so", "unlisted_namespaces: REFUSE", ""},
      {"all are accepted", "unlisted_namespaces: ALLOW", ""},
      {"one is accepted", "namespaces: [{name: a}]", ""},
  };
  ExpectProblems(kRows);
}

TEST(ConfigTest, BuiltInAcceptsEveryNamespace) {
  const std::shared_ptr<const Config> config = Config::BuiltIn();
  EXPECT_TRUE(config->Accepts("payments"));
  EXPECT_EQ(config->Find("payments"), nullptr);
  EXPECT_TRUE(config->Names().empty());
  EXPECT_EQ(*config->PolicyFor("payments"), Policy{});
  EXPECT_EQ(config->limits(), ServerLimits{});
}

TEST(ConfigTest, BuiltInDefaultsAreThoseOfTheDesign) {
  const Policy policy = *Config::BuiltIn()->PolicyFor("any");
  EXPECT_EQ(policy.default_lease, seconds(30));
  EXPECT_EQ(policy.max_lease, hours(24));
  EXPECT_EQ(policy.max_hold, hours(24));
  EXPECT_EQ(policy.max_wait, seconds(60));
  EXPECT_EQ(policy.terms.retention, hours(24));
  EXPECT_EQ(policy.max_retention, 400 * kDay);
  EXPECT_EQ(policy.expired_memory, 30 * kDay);
  EXPECT_EQ(policy.terms.unknown_outcome, core::UnknownOutcome::kReconcileFirst);
  EXPECT_EQ(policy.terms.settle, seconds(60));
  EXPECT_EQ(policy.terms.initial_backoff, seconds(1));
  EXPECT_EQ(policy.terms.max_backoff, minutes(5));
  EXPECT_FALSE(policy.scope_optional);
  EXPECT_FALSE(policy.fingerprint_optional);
  EXPECT_EQ(policy.key_check, core::KeyCheck::kRefuse);
  EXPECT_EQ(policy.max_response_bytes, 1024u * 1024u);
}

TEST(ConfigTest, AFileAcceptsWhatItNames) {
  const auto refusing = Good("namespaces: [{name: b}, {name: a}]");
  EXPECT_TRUE(refusing->Accepts("a"));
  EXPECT_FALSE(refusing->Accepts("c"));
  EXPECT_FALSE(refusing->Accepts(""));
  EXPECT_THAT(refusing->Names(), testing::ElementsAre("a", "b"));
  const auto allowing = Good("unlisted_namespaces: ALLOW\nnamespaces: [{name: a}]");
  EXPECT_TRUE(allowing->Accepts("c"));
  EXPECT_EQ(allowing->Find("c"), nullptr);
}

TEST(ConfigTest, AnUnlistedNamespaceHasTheDefaultsOfTheFile) {
  const auto config = Good("defaults: {retention: 1h}\nnamespaces: [{name: a, retention: 2h}]");
  EXPECT_EQ(config->PolicyFor("gone")->terms.retention, hours(1));
  EXPECT_EQ(config->PolicyFor("a")->terms.retention, hours(2));
  const NamespaceConfig described = config->Describe("gone");
  EXPECT_EQ(described.name, "gone");
  EXPECT_EQ(described.policy.terms.retention, hours(1));
  EXPECT_EQ(config->Describe("a").policy.terms.retention, hours(2));
}

TEST(ConfigTest, APolicyOutlivesItsConfig) {
  auto config = Good("namespaces: [{name: a, retention: 2h}]");
  const std::shared_ptr<const Policy> policy = config->PolicyFor("a");
  config.reset();
  EXPECT_EQ(policy->terms.retention, hours(2));
}

TEST(ConfigTest, LaterWins) {
  const auto config = Good(
      "defaults:\n"
      "  max_wait_duration: 1s\n"
      "  settle_duration: 1s\n"
      "  initial_backoff: 2s\n"
      "  provider: {name: D, source: from-defaults, account_scope: d, endpoints: [D]}\n"
      "namespaces:\n"
      "- name: n\n"
      "  initial_backoff: 7s\n"
      "  preset: STRIPE_V1\n"
      "  provider: {account_scope: own}\n"
      "- name: zero\n"
      "  preset: WEBHOOK_INBOX\n"
      "  fingerprint_optional: false\n"
      "  retention: 0s\n"
      "  expired_memory: 500ms\n"
      "  provider: {endpoints: [Z]}\n");
  const NamespaceConfig* n = config->Find("n");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->policy.default_lease, seconds(30)) << "built in";
  EXPECT_EQ(n->policy.max_wait, seconds(1)) << "defaults over built in";
  EXPECT_EQ(n->policy.terms.settle, minutes(2)) << "preset over defaults";
  EXPECT_EQ(n->policy.terms.initial_backoff, seconds(7)) << "own over preset, wherever it stands";
  EXPECT_EQ(n->preset, "STRIPE_V1");
  EXPECT_EQ(n->provider.name(), "Stripe");
  EXPECT_EQ(n->provider.account_scope(), "own");
  EXPECT_THAT(n->provider.endpoints(), testing::ElementsAre("POST /v1/*"));
  const NamespaceConfig* zero = config->Find("zero");
  ASSERT_NE(zero, nullptr);
  EXPECT_FALSE(zero->policy.fingerprint_optional) << "own false over the preset's true";
  EXPECT_EQ(zero->policy.terms.retention, core::Duration(0)) << "own zero over the preset's";
  EXPECT_EQ(zero->policy.expired_memory, core::Duration(500)) << "the whole duration is replaced";
  EXPECT_EQ(zero->provider.source(), "from-defaults");
  EXPECT_THAT(zero->provider.endpoints(), testing::ElementsAre("Z")) << "replaced, not added to";
}

TEST(ConfigTest, EveryFieldIsTaken) {
  const auto config = Good(
      "namespaces:\n"
      "- name: n\n"
      "  description: what it is for\n"
      "  scope_optional: true\n"
      "  fingerprint_optional: true\n"
      "  default_lease_duration: 1m\n"
      "  max_lease_duration: 2m\n"
      "  max_hold_duration: 3m\n"
      "  max_wait_duration: 4m\n"
      "  retention: 5m\n"
      "  max_retention: 6m\n"
      "  expired_memory: 7m\n"
      "  unknown_outcome: RETRY_SAME_KEY\n"
      "  protection_window: 8m\n"
      "  max_attempts: 9\n"
      "  initial_backoff: 10ms\n"
      "  max_backoff: 11ms\n"
      "  settle_duration: 12m\n"
      "  max_key_bytes: 13\n"
      "  max_response_bytes: 14\n"
      "  key_check: OFF\n"
      "  provider: {name: P}\n"
      "  quota: {reserves_per_second: 17, reserve_burst: 18, open_operations: 19}\n"
      "  scope_quota: {stored_bytes: 20000000000}\n"
      "limits: {max_waiters: 15, max_waiters_per_key: 14, max_queued_commands: 16}\n");
  Policy expected;
  expected.scope_optional = true;
  expected.fingerprint_optional = true;
  expected.default_lease = minutes(1);
  expected.max_lease = minutes(2);
  expected.max_hold = minutes(3);
  expected.max_wait = minutes(4);
  expected.terms.retention = minutes(5);
  expected.max_retention = minutes(6);
  expected.expired_memory = minutes(7);
  expected.terms.unknown_outcome = core::UnknownOutcome::kRetrySameKey;
  expected.terms.protection_window = minutes(8);
  expected.terms.max_attempts = 9;
  expected.terms.initial_backoff = core::Duration(10);
  expected.terms.max_backoff = core::Duration(11);
  expected.terms.settle = minutes(12);
  expected.max_key_bytes = 13;
  expected.max_response_bytes = 14;
  expected.key_check = core::KeyCheck::kOff;
  expected.quota = {17, 18, 19, core::kUnlimited};
  expected.scope_quota.stored_bytes = 20'000'000'000;
  const NamespaceConfig* n = config->Find("n");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->policy, expected);
  EXPECT_EQ(n->description, "what it is for");
  EXPECT_EQ(n->provider.name(), "P");
  EXPECT_EQ(config->limits(), (ServerLimits{15, 14, 16}));
}

TEST(ConfigTest, QuotasReplaceThoseOfTheDefaultsOneByOne) {
  const auto config = Good(
      "defaults:\n"
      "  quota: {reserves_per_second: 5, open_operations: 6}\n"
      "unlisted_namespaces: ALLOW\n"
      "namespaces:\n"
      "- name: n\n"
      "  quota: {open_operations: 0}\n");
  EXPECT_EQ(config->PolicyFor("n")->quota, (core::Quota{5, core::kUnlimited, 0, core::kUnlimited}))
      << "a zero is no new keys, and not no limit";
  EXPECT_EQ(config->PolicyFor("unlisted")->quota.open_operations, 6u);
  EXPECT_EQ(config->PolicyFor("n")->scope_quota, core::Quota{});
}

TEST(ConfigTest, FewerWaitersMeanFewerOnOneKey) {
  const auto config = Good("unlisted_namespaces: ALLOW\nlimits: {max_waiters: 5}");
  EXPECT_EQ(config->limits(), (ServerLimits{5, 5, core::kMaxQueuedCommands}));
}

TEST(ConfigTest, ToProtoHasEveryField) {
  const auto config = Good(
      "namespaces:\n"
      "- name: n\n"
      "  description: what it is for\n"
      "  scope_optional: true\n"
      "  fingerprint_optional: true\n"
      "  preset: STRIPE_V1\n"
      "  retention: 1500ms\n");
  const idempotency::v1::Namespace proto = ToProto(config->Describe("n"));
  std::vector<const google::protobuf::FieldDescriptor*> set;
  proto.GetReflection()->ListFields(proto, &set);
  EXPECT_EQ(set.size(), static_cast<size_t>(proto.GetDescriptor()->field_count()))
      << proto.DebugString();
  EXPECT_EQ(proto.name(), "n");
  EXPECT_EQ(proto.unknown_outcome(), idempotency::v1::UNKNOWN_OUTCOME_POLICY_RETRY_SAME_KEY);
  EXPECT_EQ(proto.key_check(), idempotency::v1::KEY_CHECK_REFUSE);
  EXPECT_EQ(proto.retention().seconds(), 1);
  EXPECT_EQ(proto.retention().nanos(), 500'000'000);
  EXPECT_EQ(proto.protection_window().seconds(), 23 * 3600);
  EXPECT_EQ(proto.provider().name(), "Stripe");
}

TEST(ConfigTest, ToProtoFillsDurationsThatAreZero) {
  const idempotency::v1::Namespace proto = ToProto(NamespaceConfig{});
  EXPECT_TRUE(proto.has_retention());
  EXPECT_TRUE(proto.has_settle_duration());
}

TEST(ConfigTest, ToProtoLeavesUnsetWhatANamespaceHasNot) {
  const idempotency::v1::Namespace proto = ToProto(NamespaceConfig{});
  EXPECT_FALSE(proto.has_protection_window()) << proto.DebugString();
  EXPECT_FALSE(proto.has_provider()) << proto.DebugString();
  EXPECT_EQ(proto.max_attempts(), 0u);
}

// Reflected, so that a field added to one is not forgotten in the other.
TEST(ConfigTest, TheSchemaHasTheFieldsOfTheApi) {
  const google::protobuf::Descriptor* api = idempotency::v1::Namespace::descriptor();
  const google::protobuf::Descriptor* schema = config::v1::Namespace::descriptor();
  for (int i = 0; i < api->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *api->field(i);
    const google::protobuf::FieldDescriptor* same = schema->FindFieldByName(field.name());
    ASSERT_NE(same, nullptr) << field.name();
    EXPECT_EQ(same->type(), field.type()) << field.name();
    EXPECT_EQ(same->message_type(), field.message_type()) << field.name();
    EXPECT_EQ(same->enum_type(), field.enum_type()) << field.name();
  }
  EXPECT_EQ(schema->field_count(), api->field_count() + 3) << "and preset, quota, scope_quota";
}

}  // namespace
}  // namespace idempotency::service
