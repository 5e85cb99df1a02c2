// The retry review against the service itself.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "idempotency/fingerprint.h"
#include "idempotency/keys.h"
#include "idempotency/testing/fake_environment.h"
#include "idempotency/testing/retry_review.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""h;

TEST(ReviewServiceTest, ARightHandlerPassesAgainstTheServiceItself) {
  ServiceFixture service({.config = R"(
namespaces:
  payments:
    unknown_outcome: RETRY_SAME_KEY
    protection_window: 23h
    max_attempts: 8
)"});
  const auto environment = std::make_shared<FakeEnvironment>();
  const RetryReport report = ReviewRetries(
      [](ReviewedCall& call) {
        return ReviewAnswer::Of(call.client.Run(
            {.id = call.id,
             .fingerprint = FingerprintBytes("POST", "/charges", call.request),
             .first_sent = call.first_sent},
            [&](Attempt& attempt) {
              return call.provider.Do(attempt.provider_key(), call.request);
            },
            {.look_up = [&](const Operation&) { return call.provider.Find(ProviderKey(call.id)); },
             .reconciler = "the handler"}));
      },
      {.policy = NamespacePolicy::RetrySameKey(23h, 8),
       .environment = environment,
       .connection =
           MakeConnection({.target = "127.0.0.1:" + std::to_string(service.server()->port())}),
       .advance = [&](Duration span) {
         environment->Advance(span);
         service.Advance(span);
       }});
  EXPECT_TRUE(report.passed()) << report.Text();
  for (const ReviewFinding& finding : report.findings) {
    EXPECT_EQ(finding.verdict, ReviewFinding::Verdict::kPassed) << finding.name;
    EXPECT_EQ(finding.effects, 1u) << finding.name << "\n" << report.Text();
  }
}

}  // namespace
}  // namespace idempotency::testing
