#include "service/presets.h"

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/config.h"
#include "service/config_rules.h"

namespace idempotency::service {
namespace {

using core::kDay;
using core::Policy;
using core::UnknownOutcome;
using idempotency::v1::ProviderContract;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

struct Applied {
  Policy policy;
  ProviderContract provider;
};

Applied Apply(std::string_view name) {
  Applied applied;
  EXPECT_TRUE(ApplyPreset(name, &applied.policy, &applied.provider)) << name;
  return applied;
}

TEST(PresetsTest, AreKnownByName) {
  EXPECT_THAT(PresetNames(), testing::ElementsAre("STRIPE_V1", "WEBHOOK_INBOX", "ACTIVE_RUN",
                                                  "NO_PROVIDER_SUPPORT"));
}

TEST(PresetsTest, AnUnknownOneChangesNothing) {
  for (const char* name : {"", "STRIPE", "stripe_v1", "STRIPE_V1 "}) {
    Applied applied;
    EXPECT_FALSE(ApplyPreset(name, &applied.policy, &applied.provider)) << name;
    EXPECT_EQ(applied.policy, Policy{}) << name;
    EXPECT_EQ(applied.provider.ByteSizeLong(), 0u) << name;
  }
}

TEST(PresetsTest, StripeV1) {
  const Applied applied = Apply("STRIPE_V1");
  Policy expected;
  expected.terms.unknown_outcome = UnknownOutcome::kRetrySameKey;
  expected.terms.protection_window = hours(23);
  expected.terms.max_attempts = 8;
  expected.terms.initial_backoff = seconds(5);
  expected.terms.max_backoff = minutes(10);
  expected.terms.settle = minutes(2);
  expected.terms.retention = 7 * kDay;
  EXPECT_EQ(applied.policy, expected);
  // What Stripe forgets after a day must not be sent again by anybody who is late.
  EXPECT_LT(applied.policy.terms.protection_window, kDay);
  EXPECT_GT(applied.policy.terms.retention, kDay);
  EXPECT_EQ(applied.provider.name(), "Stripe");
  EXPECT_EQ(applied.provider.key_location(), "header Idempotency-Key");
  EXPECT_EQ(applied.provider.key_max_bytes(), 255u);
  EXPECT_EQ(applied.provider.source(), "https://docs.stripe.com/api/idempotent_requests");
  EXPECT_THAT(applied.provider.verified_date(), testing::MatchesRegex("20..-..-.."));
  EXPECT_NE(applied.provider.on_mismatch(), "");
  EXPECT_NE(applied.provider.on_concurrent(), "");
  EXPECT_NE(applied.provider.on_expiry(), "");
}

TEST(PresetsTest, WebhookInbox) {
  Policy expected;
  expected.fingerprint_optional = true;
  expected.terms.unknown_outcome = UnknownOutcome::kRerun;
  expected.terms.retention = 30 * kDay;
  EXPECT_EQ(Apply("WEBHOOK_INBOX").policy, expected);
}

TEST(PresetsTest, ActiveRun) {
  Policy expected;
  expected.terms.unknown_outcome = UnknownOutcome::kRerun;
  expected.terms.retention = core::Duration::zero();
  expected.default_lease = minutes(15);
  expected.max_lease = 30 * kDay;
  expected.max_hold = 30 * kDay;
  EXPECT_EQ(Apply("ACTIVE_RUN").policy, expected);
}

TEST(PresetsTest, NoProviderSupport) {
  EXPECT_EQ(Apply("NO_PROVIDER_SUPPORT").policy, Policy{});
  // Also over defaults that would retry.
  Applied applied = Apply("STRIPE_V1");
  ASSERT_TRUE(ApplyPreset("NO_PROVIDER_SUPPORT", &applied.policy, &applied.provider));
  EXPECT_EQ(applied.policy.terms.unknown_outcome, UnknownOutcome::kReconcileFirst);
  EXPECT_EQ(applied.policy.terms.protection_window, core::Duration::zero());
  EXPECT_EQ(applied.policy.terms.max_attempts, 0u);
  EXPECT_EQ(applied.provider.key_location(), "none");
}

TEST(PresetsTest, KeepTheRulesOfTheFile) {
  for (const std::string& name : PresetNames()) {
    const Applied applied = Apply(name);
    for (const Contradiction& found : FindContradictions(applied.policy)) {
      ADD_FAILURE() << name << ": " << found.sentence;
    }
    // And in a file, where its texts and ranges are looked at as well.
    const auto config =
        Config::LoadText(absl::StrCat("namespaces: [{name: n, preset: ", name, "}]"), "f.yaml");
    ASSERT_TRUE(config.ok()) << config.status();
    const NamespaceConfig* found = (*config)->Find("n");
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->policy, applied.policy) << name;
    EXPECT_EQ(found->preset, name);
    EXPECT_EQ(found->provider.DebugString(), applied.provider.DebugString()) << name;
  }
}

}  // namespace
}  // namespace idempotency::service
