// What is checked before anything is asked, and running without protection.
#include "client/src/run.h"

#include <functional>
#include <string>

#include "idempotency/keys.h"
#include "tests/client/run/run_fixture.h"

namespace idempotency::testing {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::testing::Return;
using ::testing::StartsWith;

struct WrongCase {
  std::string name;
  std::function<void(RunRequest*, RunOptions*)> spoil;
  std::string names;
};

std::ostream& operator<<(std::ostream& out, const WrongCase& c) { return out << c.name; }

class WrongRequestTest : public RunFixture, public ::testing::WithParamInterface<WrongCase> {};

TEST_P(WrongRequestTest, IsRefusedBeforeAnythingIsAsked) {
  GetParam().spoil(&request, &options);
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kInvalid);
  EXPECT_EQ(result.next_step, NextStep::kStop);
  EXPECT_THAT(result.detail, StartsWith(GetParam().names));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongRequestTest,
    ::testing::Values(
        WrongCase{"NoNamespace", [](auto* r, auto*) { r->id.name_space = ""; }, "id.name_space:"},
        WrongCase{"NoKey", [](auto* r, auto*) { r->id.key = ""; }, "id.key:"},
        WrongCase{"NoClassifier", [](auto*, auto* o) { o->classify = nullptr; }, "classify:"},
        WrongCase{"NegativeWait", [](auto* r, auto*) { r->wait = -1ms; }, "wait:"},
        WrongCase{"NoLease", [](auto* r, auto*) { r->lease_duration = 0ms; }, "lease_duration:"},
        WrongCase{"NoTime", [](auto* r, auto*) { r->call_timeout = 0ms; }, "call_timeout:"},
        WrongCase{"MoreTimeThanLease",
                  [](auto* r, auto* o) {
                    r->lease_duration = 30s;
                    r->call_timeout = 30001ms;
                    o->renew = false;
                  },
                  "call_timeout:"}),
    [](const auto& info) { return info.param.name; });

class RunTest : public RunFixture {};

TEST_F(RunTest, WithoutAFunctionThereIsNothingToRun) {
  const RunResult result = Run(nullptr);
  EXPECT_EQ(result.stop, StopReason::kInvalid);
  EXPECT_THAT(result.detail, StartsWith("fn:"));
}

TEST_F(RunTest, ATimeoutAsLongAsTheLeaseFits) {
  request.lease_duration = 30s;
  request.call_timeout = 30s;
  options.renew = false;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(30s)));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  EXPECT_TRUE(Run([](Attempt&) { return Answer("charged"); }).has_answer());
}

TEST_F(RunTest, WithRenewalTheTimeoutMayBeLonger) {
  request.lease_duration = 30s;
  request.call_timeout = 1h;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(30s)));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  EXPECT_TRUE(Run([](Attempt&) { return Answer("charged"); }).has_answer());
}

TEST_F(RunTest, ATimeoutThatTheNamespacesLeaseIsTooShortForGivesTheKeyBack) {
  request.call_timeout = 31s;
  options.renew = false;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(30s)));
  EXPECT_CALL(*connection, Release).WillOnce(Return(ReleaseResponse{OperationState::kFreed}));
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kInvalid);
  EXPECT_FALSE(result.record_open);
}

TEST_F(RunTest, ALeaseThatHasRunForAWhileIsRenewedBeforeItIsTooShort) {
  request.call_timeout = 25s;
  options.renew = false;
  ReserveResponse held = Acquired(20s);
  held.outcome = ReserveOutcome::kAlreadyHeld;
  held.next_step = NextStep::kProceedUnlessStarted;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Lost())).WillOnce(Return(held));
  EXPECT_CALL(*connection, Renew).WillOnce(Return(RenewResponse{LeaseOf(30s)}));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  EXPECT_TRUE(Run([](Attempt&) { return Answer("charged"); }).has_answer());
}

TEST_F(RunTest, FnKnowsItsAttempt) {
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(30s, 2)));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  (void)Run([&](Attempt& attempt) {
    EXPECT_EQ(attempt.id(), request.id);
    EXPECT_EQ(attempt.number(), 2u);
    EXPECT_EQ(attempt.fencing_token(), kToken);
    EXPECT_EQ(attempt.provider_key(), ProviderKey(request.id));
    return Answer("charged");
  });
}

// --- Without protection --------------------------------------------------------------------------

class UnprotectedTest : public RunFixture {
 protected:
  UnprotectedTest() {
    options.allow_unprotected = true;
    options.retry = RetryPolicy::Never();
    EXPECT_CALL(*connection, Reserve).WillRepeatedly(Return(Lost()));
  }
};

TEST_F(UnprotectedTest, NothingIsReported) {
  const RunResult answered = Run([](Attempt&) { return Answer("charged"); });
  EXPECT_TRUE(answered.has_answer());
  EXPECT_TRUE(answered.unprotected);
  EXPECT_EQ(answered.response, Body("charged"));
  EXPECT_EQ(answered.verdict, Verdict::kSucceeded);
  EXPECT_THAT(answered.detail, HasSubstr("without protection"));

  EXPECT_EQ(Run([](Attempt&) { return Answer("later", 429); }).stop, StopReason::kNothingHappened);
  const RunResult unknown = Run([](Attempt&) { return EffectResult::Failed(Lost()); });
  EXPECT_EQ(unknown.stop, StopReason::kUnresolved);
  EXPECT_EQ(unknown.next_step, NextStep::kReconcileFirst);
}

TEST_F(UnprotectedTest, TheAttemptHoldsNothing) {
  Cancellation cancellation;
  options.cancellation = cancellation;
  request.call_timeout = 5s;
  (void)Run([&](Attempt& attempt) {
    EXPECT_EQ(attempt.fencing_token(), 0u);
    EXPECT_EQ(attempt.provider_key(), ProviderKey(request.id));
    EXPECT_EQ(attempt.remaining(), 5s);
    EXPECT_TRUE(attempt.Dispatch().ok());
    EXPECT_FALSE(attempt.SaveProgress("half").ok());
    bool told = false;
    attempt.OnStop([&] { told = true; });
    EXPECT_FALSE(attempt.should_stop());
    cancellation.Cancel();
    EXPECT_TRUE(told);
    EXPECT_TRUE(attempt.should_stop());
    // Without dispatch_later, fn itself has been let start the call.
    EXPECT_TRUE(attempt.Dispatch().ok());
    return Answer("charged");
  });
}

TEST_F(UnprotectedTest, WhatWasNotDispatchedDidNotHappen) {
  options.cancellation = Cancellation();
  options.classify = [](const EffectResult&) -> Classification {
    ADD_FAILURE() << "there is nothing to classify";
    return {};
  };
  request.dispatch_later = true;
  const RunResult result = Run([&](Attempt& attempt) {
    options.cancellation->Cancel();
    const absl::Status told = attempt.Dispatch();
    EXPECT_EQ(told.code(), absl::StatusCode::kCancelled);
    return EffectResult::Failed(told);
  });
  EXPECT_EQ(result.stop, StopReason::kNothingHappened);
  EXPECT_TRUE(result.unprotected);
  EXPECT_EQ(result.effect_error.code(), absl::StatusCode::kCancelled);
}

TEST_F(UnprotectedTest, WhatWasDispatchedAndGotNoAnswerIsUnknown) {
  options.cancellation = Cancellation();
  request.dispatch_later = true;
  const RunResult result = Run([&](Attempt& attempt) {
    EXPECT_TRUE(attempt.Dispatch().ok());
    options.cancellation->Cancel();
    // It has started: there is nothing left to refuse.
    EXPECT_TRUE(attempt.Dispatch().ok());
    return EffectResult::Failed(Lost());
  });
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
}

TEST_F(UnprotectedTest, ItsTimeIsLimitedAllTheSame) {
  request.call_timeout = 5s;
  (void)Run([&](Attempt& attempt) {
    bool told = false;
    const std::stop_callback on_stop(attempt.stop_token(), [&] { told = true; });
    Advance(4999ms);
    EXPECT_FALSE(told);
    Advance(1ms);
    EXPECT_TRUE(told);
    EXPECT_TRUE(attempt.should_stop());
    return Answer("charged");
  });
}

}  // namespace
}  // namespace idempotency::testing
