// What is entrusted to the client is nowhere in what it prints or says of itself, whatever happens.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "tests/support/server_process.h"

namespace idempotency::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kKey[] = "key-4242424242";
constexpr char kBody[] = "body-5555555555";
constexpr char kToken[] = "token-6666666666";
constexpr char kHeader[] = "header-7777777777";

class QuietTest : public ::testing::TestWithParam<bool> {
 protected:
  EffectResult Charge() {
    return EffectResult::Answered({.status = CachedResponse::HttpStatus{200},
                                   .metadata = {{"x-note", kHeader}},
                                   .body = kBody});
  }

  // Keeps what the result says in words, and why it stopped.
  StopReason Run(const std::string& key, const std::string& asked, bool fails = false) {
    const RunRequest request{.id = {"payments", "acct", key},
                             .fingerprint = FingerprintBytes("POST", "/v1/charges", asked)};
    const RunOptions options{.classify = ClassifyHttp,
                             .retry = RetryPolicy::Never(),
                             .settle_retry = RetryPolicy::Never()};
    try {
      const RunResult result = client_.Run(
          request,
          [&](Attempt&) {
            if (fails) (void)std::string().at(1);
            return Charge();
          },
          options);
      said_ += result.detail + "\n";
      return result.stop;
    } catch (const std::out_of_range& error) {
      said_ += error.what();
      return StopReason::kNone;
    }
  }

  ServerProcess server_{{"--engine=memory"}};
  const Client client_{MakeConnection({.target = "127.0.0.1:" + std::to_string(server_.port()),
                                       .bearer_token = [] { return std::string(kToken); },
                                       .batching = GetParam()})};
  std::string said_;
};

TEST_P(QuietTest, NothingThatIsPrintedGivesASecretAway) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const std::string key = kKey;
  const StopReason done = Run(key, kBody);
  const StopReason replayed = Run(key, kBody);
  const StopReason mismatched = Run(key, "other");
  const StopReason invalid = Run(key + "\x01", kBody);
  Run(key + "-fails", kBody, /*fails=*/true);
  server_.Kill();
  const StopReason away = Run(key + "-away", kBody);
  said_ += ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();

  EXPECT_EQ(done, StopReason::kNone);
  EXPECT_EQ(replayed, StopReason::kNone);
  EXPECT_NE(mismatched, StopReason::kNone);
  EXPECT_NE(invalid, StopReason::kNone);
  EXPECT_NE(away, StopReason::kNone);
  for (const char* secret : {kKey, kBody, kToken, kHeader}) {
    EXPECT_THAT(said_, Not(HasSubstr(secret)));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, QuietTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Batching" : "Single"; });

}  // namespace
}  // namespace idempotency::testing
