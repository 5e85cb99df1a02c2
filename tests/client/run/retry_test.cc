// How often and when a call is repeated, to the millisecond.
#include "client/src/retry.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/testing/fake_environment.h"
#include "tests/client/run/run_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using testing::FakeEnvironment;
using ::testing::IsEmpty;
using testing::Lost;
using testing::Refuse;
using namespace std::chrono_literals;

constexpr BackoffPolicy kBackoff{.initial = 50ms, .maximum = 400ms, .factor = 2.0};

struct Case {
  std::string name;
  RetryPolicy policy;
  std::vector<absl::Status> failures;
  bool (*may_pass)(const absl::Status&) = IsTransient;
  std::vector<Duration> sleeps;
  bool answered = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class RetryTest : public ::testing::TestWithParam<Case> {};

TEST_P(RetryTest, SleepsExactly) {
  const Case& c = GetParam();
  FakeEnvironment environment;
  std::deque<absl::Status> failures(c.failures.begin(), c.failures.end());
  const absl::StatusOr<int> answer = Retry<int>(environment, c.policy, kBackoff, c.may_pass,
                                                [&](const CallOptions&) -> absl::StatusOr<int> {
                                                  if (failures.empty()) return 1;
                                                  const absl::Status next = failures.front();
                                                  failures.pop_front();
                                                  return next;
                                                });
  EXPECT_EQ(answer.ok(), c.answered) << answer.status();
  EXPECT_EQ(environment.sleeps(), c.sleeps);
}

const std::vector<absl::Status> kManyLost(20, Lost());

INSTANTIATE_TEST_SUITE_P(
    All, RetryTest,
    ::testing::Values(
        Case{.name = "AtOnce", .policy = {}, .failures = {}, .sleeps = {}, .answered = true},
        Case{.name = "GrowsToTheMaximum",
             .policy = {},
             .failures = std::vector<absl::Status>(5, Lost()),
             .sleeps = {50ms, 100ms, 200ms, 400ms, 400ms},
             .answered = true},
        // The sixth delay would end at the very end of the policy.
        Case{.name = "EndsBeforeTheTotalIsOver",
             .policy = RetryPolicy::UpTo(1550ms),
             .failures = kManyLost,
             .sleeps = {50ms, 100ms, 200ms, 400ms, 400ms}},
        Case{.name = "OneMillisecondMoreIsOneMoreTry",
             .policy = RetryPolicy::UpTo(1551ms),
             .failures = kManyLost,
             .sleeps = {50ms, 100ms, 200ms, 400ms, 400ms, 400ms}},
        Case{.name = "ThreeAttempts",
             .policy = {.max_attempts = 3},
             .failures = kManyLost,
             .sleeps = {50ms, 100ms}},
        Case{.name = "Never", .policy = RetryPolicy::Never(), .failures = kManyLost, .sleeps = {}},
        Case{.name = "NothingLeft",
             .policy = RetryPolicy::UpTo(0ms),
             .failures = kManyLost,
             .sleeps = {}},
        Case{.name = "RefusalIsFinal",
             .policy = {},
             .failures = {Refuse(ErrorReason::kStaleFencingToken)},
             .sleeps = {}},
        Case{.name = "WhatTheServiceAsksForWinsWhereLonger",
             .policy = {},
             .failures = {Refuse(ErrorReason::kOverloaded, 700ms),
                          Refuse(ErrorReason::kOverloaded, 1ms)},
             .sleeps = {700ms, 100ms},
             .answered = true},
        Case{.name = "AStrangeErrorIsNotRepeatedBeforeTheEffect",
             .policy = {},
             .failures = {absl::InternalError("a proxy")},
             .sleeps = {}},
        Case{.name = "AStrangeErrorIsRepeatedWhereSomethingMustBeRecorded",
             .policy = {},
             .failures = {absl::InternalError("a proxy"), absl::UnauthenticatedError("expired")},
             .may_pass = IsWorthPersisting,
             .sleeps = {50ms, 100ms},
             .answered = true},
        Case{.name = "AFinalRefusalEndsThatToo",
             .policy = {},
             .failures = {Refuse(ErrorReason::kAlreadyComplete)},
             .may_pass = IsWorthPersisting,
             .sleeps = {}}),
    [](const auto& info) { return info.param.name; });

TEST(RetryTimeoutTest, IsCutToWhatIsLeftButNotBelowASecond) {
  FakeEnvironment environment;
  std::vector<Duration> timeouts;
  const absl::StatusOr<int> answer =
      Retry<int>(environment, RetryPolicy::UpTo(25s), BackoffPolicy{.initial = 1ms, .maximum = 1ms},
                 IsTransient, [&](const CallOptions& options) -> absl::StatusOr<int> {
                   timeouts.push_back(options.timeout);
                   environment.Advance(options.timeout);
                   return absl::DeadlineExceededError("no answer");
                 });
  EXPECT_FALSE(answer.ok());
  EXPECT_THAT(timeouts, ElementsAre(10s, 10s, 4998ms));
}

TEST(RetryTimeoutTest, JitterTakesUpToHalf) {
  FakeEnvironment environment;
  environment.ScriptRandom({0.5, 1.0});
  int calls = 0;
  (void)Retry<int>(environment, RetryPolicy{.max_attempts = 3}, kBackoff, IsTransient,
                   [&](const CallOptions&) -> absl::StatusOr<int> {
                     ++calls;
                     return Lost();
                   });
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(environment.sleeps(), ElementsAre(38ms, 50ms));
}

TEST(SleepUnlessTest, TheDefaultLooksTenTimesASecond) {
  // The base class, with its own idea of sleeping in slices.
  class Sliced : public FakeEnvironment {
   public:
    void SleepUnless(std::stop_token stop, Duration span) override {
      Environment::SleepUnless(std::move(stop), span);
    }
  };
  Sliced environment;
  environment.SleepUnless({}, 250ms);
  EXPECT_THAT(environment.sleeps(), ElementsAre(250ms)) << "nobody can stop it";

  std::stop_source source;
  environment.SleepUnless(source.get_token(), 250ms);
  EXPECT_THAT(environment.sleeps(), ElementsAre(250ms, 100ms, 100ms, 50ms));

  environment.OnSleep([&](Duration) { source.request_stop(); });
  environment.SleepUnless(source.get_token(), 250ms);
  EXPECT_THAT(environment.sleeps(), ElementsAre(250ms, 100ms, 100ms, 50ms, 100ms));

  environment.SleepUnless(source.get_token(), 250ms);
  EXPECT_EQ(environment.sleeps().size(), 5u) << "stopped before it began";
}

}  // namespace
}  // namespace idempotency::internal
