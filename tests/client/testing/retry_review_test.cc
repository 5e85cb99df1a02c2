// The retry review finds what is wrong with a handler, and nothing wrong with a right one.
#include "idempotency/testing/retry_review.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "idempotency/fingerprint.h"
#include "idempotency/keys.h"
#include "idempotency/testing/fake_environment.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""s;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Failed(const RetryReport& report) {
  std::vector<std::string> names;
  for (const ReviewFinding& finding : report.findings) {
    if (finding.verdict == ReviewFinding::Verdict::kFailed) names.push_back(finding.name);
  }
  return names;
}

// What a handler is made of, each part of which can be got wrong.
struct Parts {
  std::function<RunRequest(ReviewedCall&)> request = [](ReviewedCall& call) {
    return RunRequest{.id = call.id,
                      .fingerprint = FingerprintBytes("POST", "/charges", call.request),
                      .first_sent = call.first_sent};
  };
  std::function<std::string(Attempt&, ReviewedCall&)> key = [](Attempt& attempt, ReviewedCall&) {
    return attempt.provider_key();
  };
  std::function<RunOptions(ReviewedCall&)> options = [](ReviewedCall&) { return RunOptions{}; };
};

ReviewedHandler Made(const Parts& parts) {
  return [parts](ReviewedCall& call) {
    return ReviewAnswer::Of(call.client.Run(
        parts.request(call),
        [&](Attempt& attempt) { return call.provider.Do(parts.key(attempt, call), call.request); },
        parts.options(call)));
  };
}

RunOptions WithLookUp(ReviewedCall& call) {
  return RunOptions{
      .look_up = [&call](const Operation&) { return call.provider.Find(ProviderKey(call.id)); },
      .reconciler = "the handler"};
}

// --- Right ones ----------------------------------------------------------------------------------

struct RightRow {
  const char* name;
  ReviewSetup setup;
  bool look_up;
  // All end with an answer.
  bool all_answered;
};

class RightHandlerTest : public ::testing::TestWithParam<RightRow> {};

NamespacePolicy Stripe() {
  NamespacePolicy policy = NamespacePolicy::RetrySameKey(23h, 8);
  policy.initial_backoff = 5s;
  return policy;
}

INSTANTIATE_TEST_SUITE_P(
    Setups, RightHandlerTest,
    ::testing::Values(
        RightRow{"ReconcileFirst", {}, false, false},
        RightRow{"ReconcileFirstWithLookUp", {}, true, true},
        RightRow{"ProviderWithoutKeys", {.provider_knows_keys = false}, false, false},
        RightRow{"ProviderWithoutKeysWithLookUp", {.provider_knows_keys = false}, true, true},
        RightRow{"RetrySameKey", {.policy = Stripe()}, false, true},
        RightRow{"RetrySameKeyWithLookUp", {.policy = Stripe()}, true, true}),
    [](const auto& row) { return std::string(row.param.name); });

TEST_P(RightHandlerTest, Passes) {
  Parts parts;
  if (GetParam().look_up) parts.options = WithLookUp;
  const RetryReport report = ReviewRetries(Made(parts), GetParam().setup);
  EXPECT_TRUE(report.passed()) << report.Text();
  EXPECT_EQ(report.findings.size(), 15u);
  for (const ReviewFinding& finding : report.findings) {
    SCOPED_TRACE(finding.name);
    EXPECT_EQ(finding.verdict, ReviewFinding::Verdict::kPassed);
    EXPECT_LE(finding.effects, 1u);
    EXPECT_FALSE(finding.calls.empty());
    // Whatever was forgotten altogether has no answer either.
    if (GetParam().all_answered && finding.name != "replay after all memory") {
      EXPECT_EQ(finding.effects, 1u) << report.Text();
      EXPECT_THAT(finding.calls, Contains(HasSubstr(": answered, HTTP 200 effect 1 of request A")));
    }
  }
}

TEST(RetryReviewTest, ShowsWhatHappenedInEachScenario) {
  const RetryReport report = ReviewRetries(Made({}));
  const ReviewFinding* lost = report.Find("reply lost");
  ASSERT_NE(lost, nullptr);
  EXPECT_THAT(lost->calls,
              ElementsAre("call: answered, HTTP 200 effect 1 of request A (nobody hears it)",
                          "call again: answered, HTTP 200 effect 1 of request A"));
  EXPECT_EQ(lost->record, "COMPLETE");
  EXPECT_EQ(lost->provider_calls, 1u);
  const ReviewFinding* changed = report.Find("changed request");
  EXPECT_THAT(changed->calls,
              ElementsAre("call: answered, HTTP 200 effect 1 of request A",
                          "another request, same key: no answer, MISMATCH, next step USE_OWN_KEY"));
  const ReviewFinding* crash = report.Find("owner crash after the effect");
  EXPECT_EQ(crash->record, "UNRESOLVED");
  EXPECT_THAT(crash->calls, Contains("call again, 1: no answer, UNRESOLVED, next step "
                                     "RECONCILE_FIRST"));
  const ReviewFinding* away = report.Find("service away");
  EXPECT_THAT(away->calls, ElementsAre("call, without the service: no answer, UNAVAILABLE, next "
                                       "step RESERVE_AGAIN",
                                       "call, with it: answered, HTTP 200 effect 1 of request A"));
  EXPECT_EQ(report.Find("no such scenario"), nullptr);
  EXPECT_THAT(report.Text(), HasSubstr("Retry review: 15 passed, 0 failed, 0 not run\n"));
  EXPECT_THAT(report.Text(),
              HasSubstr("PASSED   reply lost\n    The answer never reaches the caller, who asks "
                        "again.\n    - call: answered"));
}

// --- Wrong ones ----------------------------------------------------------------------------------

TEST(RetryReviewTest, AHandlerWithoutProtectionFails) {
  const RetryReport report = ReviewRetries(
      [](ReviewedCall& call) {
        const EffectResult effect = call.provider.Do("", call.request);
        return ReviewAnswer{.answered = effect.response.has_value(),
                            .text = effect.response.value_or(CachedResponse{}).body.value_or("")};
      },
      {.provider_knows_keys = false});
  EXPECT_FALSE(report.passed());
  for (const char* name :
       {"reply lost", "concurrent duplicate", "changed request", "owner crash after the effect",
        "late completion", "late effect", "replay after retention", "replay after all memory",
        "timeout, though it was done"}) {
    EXPECT_THAT(Failed(report), Contains(name));
  }
  const ReviewFinding* lost = report.Find("reply lost");
  EXPECT_EQ(lost->effects, 2u);
  EXPECT_THAT(lost->problems, Contains(HasSubstr("it happened 2 times")));
  EXPECT_THAT(lost->remarks, Contains("the provider is sent no key"));
  EXPECT_THAT(report.Text(), HasSubstr("FAILED   reply lost"));
  EXPECT_THAT(report.Text(), HasSubstr("PROBLEM: it happened 2 times"));
}

TEST(RetryReviewTest, FindsAKeyThatIsMadeInTheRetry) {
  Parts parts;
  parts.request = [](ReviewedCall& call) {
    RunRequest request = Parts().request(call);
    request.id.key = RandomKey(call.environment);
    return request;
  };
  EXPECT_THAT(Failed(ReviewRetries(Made(parts))), Contains("reply lost"));
}

TEST(RetryReviewTest, FindsARequestThatIsNotCompared) {
  Parts parts;
  parts.request = [](ReviewedCall& call) {
    RunRequest request = Parts().request(call);
    request.fingerprint = FingerprintBytes("POST", "/charges", "");
    return request;
  };
  const RetryReport report = ReviewRetries(Made(parts));
  EXPECT_THAT(Failed(report), ElementsAre("changed request"));
  EXPECT_THAT(report.Find("changed request")->problems, Contains(HasSubstr("fingerprint")));
}

TEST(RetryReviewTest, FindsAnOperationWhoseAgeIsNotTold) {
  Parts parts;
  parts.request = [](ReviewedCall& call) {
    RunRequest request = Parts().request(call);
    request.first_sent.reset();
    return request;
  };
  const RetryReport report = ReviewRetries(Made(parts));
  EXPECT_THAT(Failed(report), ElementsAre("replay after all memory"));
  EXPECT_THAT(report.Find("replay after all memory")->problems, Contains(HasSubstr("first_sent")));
}

TEST(RetryReviewTest, FindsAnotherKeyForEachAttempt) {
  Parts parts;
  parts.key = [](Attempt& attempt, ReviewedCall&) {
    return attempt.provider_key() + std::to_string(attempt.number());
  };
  const RetryReport report = ReviewRetries(Made(parts), {.policy = Stripe()});
  EXPECT_THAT(Failed(report), Contains("timeout, though it was done"));
  EXPECT_THAT(Failed(report), Contains("provider error, then success"));
  EXPECT_THAT(report.Find("provider error, then success")->problems,
              ElementsAre(HasSubstr("different keys")));
}

TEST(RetryReviewTest, FindsAnErrorThatIsTakenForNothing) {
  Parts parts;
  parts.options = [](ReviewedCall&) {
    RunOptions options;
    options.classify = [](const EffectResult& effect) {
      const bool fine = effect.response.has_value() &&
                        effect.response->status ==
                            decltype(effect.response->status)(CachedResponse::HttpStatus{200});
      return Classification{.disposition =
                                fine ? Disposition::kSucceeded : Disposition::kNothingHappened};
    };
    return options;
  };
  EXPECT_THAT(
      Failed(ReviewRetries(Made(parts), {.provider_knows_keys = false})),
      UnorderedElementsAre("provider error, though it was done", "timeout, though it was done"));
}

TEST(RetryReviewTest, FindsAnOperationThatIsLeftPending) {
  const RetryReport report = ReviewRetries([](ReviewedCall& call) {
    const auto reserved =
        call.connection.Reserve({.id = call.id,
                                 .fingerprint = FingerprintBytes("POST", "/charges", call.request),
                                 .attempt_id = call.environment.RandomId()},
                                {});
    if (!reserved.ok() || !reserved->lease.has_value()) return ReviewAnswer{.text = "not now"};
    call.provider.Do(ProviderKey(call.id), call.request);
    return ReviewAnswer{.answered = true, .text = "done"};
  });
  EXPECT_THAT(report.Find("concurrent duplicate")->problems, Contains(HasSubstr("left pending")));
}

TEST(RetryReviewTest, FindsTwoAnswersToOneRequest) {
  int calls = 0;
  const RetryReport report = ReviewRetries([&calls](ReviewedCall& call) {
    ReviewAnswer answer = Made({})(call);
    answer.text += ", as told in call " + std::to_string(++calls);
    return answer;
  });
  // The first answer of "reply lost" is heard by nobody.
  EXPECT_THAT(Failed(report), Contains("service reply lost"));
  EXPECT_THAT(report.Find("service reply lost")->problems, ElementsAre(HasSubstr("two answers")));
}

TEST(RetryReviewTest, SaysWhereAHandlerGoesOnWithoutProtection) {
  Parts parts;
  parts.options = [](ReviewedCall&) {
    RunOptions options;
    options.allow_unprotected = true;
    return options;
  };
  const RetryReport with_keys = ReviewRetries(Made(parts));
  EXPECT_TRUE(with_keys.passed()) << with_keys.Text();
  EXPECT_THAT(with_keys.Find("service away")->remarks, Contains(HasSubstr("without protection")));
  EXPECT_THAT(Failed(ReviewRetries(Made(parts), {.provider_knows_keys = false})),
              ElementsAre("service away"));
}

TEST(RetryReviewTest, WhatAHandlerThrowsIsItsAnswer) {
  const RetryReport report = ReviewRetries(
      [](ReviewedCall&) { return ReviewAnswer{.text = std::string("short").substr(99)}; });
  EXPECT_THAT(report.Find("reply lost")->calls[0], HasSubstr("threw: "));
}

TEST(RetryReviewTest, ARerunMayHappenAgain) {
  const RetryReport report = ReviewRetries(
      Made({}), {.policy = NamespacePolicy::WebhookInbox(), .provider_knows_keys = false});
  EXPECT_TRUE(report.passed()) << report.Text();
  EXPECT_EQ(report.Find("owner crash after the effect")->effects, 2u);
  EXPECT_EQ(report.Find("reply lost")->effects, 1u);
}

TEST(RetryReviewTest, WithoutTimeToMoveSomeIsNotRun) {
  const auto environment = std::make_shared<FakeEnvironment>();
  const RetryReport report =
      ReviewRetries(Made({}), {.environment = environment,
                               .connection = std::make_shared<InProcessConnection>(
                                   environment, NamespacePolicies{{"payments", {}}})});
  EXPECT_TRUE(report.passed()) << report.Text();
  EXPECT_EQ(report.Find("reply lost")->verdict, ReviewFinding::Verdict::kPassed);
  EXPECT_EQ(report.Find("late effect")->verdict, ReviewFinding::Verdict::kNotRun);
  EXPECT_THAT(report.Find("late effect")->remarks, ElementsAre(HasSubstr("ReviewSetup::advance")));
  EXPECT_THAT(report.Text(), HasSubstr("5 passed, 0 failed, 10 not run"));
}

}  // namespace
}  // namespace idempotency::testing
