// What a Run does with each answer to Reserve, how often and when it asks.
#include "client/src/acquire.h"

#include <string>
#include <vector>

#include "tests/client/run/run_fixture.h"

namespace idempotency::testing {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::InSequence;
using ::testing::IsEmpty;
using ::testing::Return;

class AcquireTest : public RunFixture {
 protected:
  void ExpectRelease(int times = 1) {
    EXPECT_CALL(*connection, Release(Field(&ReleaseRequest::fencing_token, kToken), _))
        .Times(times)
        .WillRepeatedly(Return(ReleaseResponse{OperationState::kFreed}));
  }
  void ExpectComplete() { EXPECT_CALL(*connection, Complete).WillOnce(Return(Done())); }
  // Calls fn, which answers.
  RunResult RunAnswering() {
    return Run([](Attempt&) { return Answer("charged"); });
  }
};

// --- Every answer that does not let it proceed ---------------------------------------------------

struct StopCase {
  std::string name;
  ReserveResponse response;
  StopReason stop;
  NextStep next_step;
};

std::ostream& operator<<(std::ostream& out, const StopCase& c) { return out << c.name; }

class StopTest : public AcquireTest, public ::testing::WithParamInterface<StopCase> {};

TEST_P(StopTest, SaysWhyAndWhatToDo) {
  const StopCase& c = GetParam();
  request.wait = 0ms;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(c.response));
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, c.stop) << "got " << Name(result.stop);
  EXPECT_EQ(result.next_step, c.next_step) << "got " << Name(result.next_step);
  EXPECT_FALSE(result.has_answer());
  EXPECT_FALSE(result.response.has_value());
  EXPECT_FALSE(result.record_open);
  EXPECT_THAT(result.detail, HasSubstr("what the service says"));
  EXPECT_THAT(environment->sleeps(), IsEmpty());
}

ReserveResponse TooOld() {
  return ReserveResponse{.outcome = ReserveOutcome::kTooOld,
                         .next_step = NextStep::kReconcileFirst,
                         .detail = "what the service says"};
}

ReserveResponse NoLease() {
  return Found(ReserveOutcome::kAcquired, NextStep::kProceed, OperationState::kPending);
}

ReserveResponse LeaseOfAnotherOutcome(ReserveOutcome outcome) {
  ReserveResponse response = Found(outcome, NextStep::kProceed, OperationState::kPending);
  response.lease = LeaseOf(30s);
  return response;
}

INSTANTIATE_TEST_SUITE_P(
    All, StopTest,
    ::testing::Values(
        StopCase{"InProgress", InProgress(), StopReason::kInProgress, NextStep::kReserveAgain},
        StopCase{"UnresolvedForAWhile", Unresolved(NextStep::kReserveAgain, 5s),
                 StopReason::kUnresolved, NextStep::kReserveAgain},
        StopCase{"Unresolved", Unresolved(), StopReason::kUnresolved, NextStep::kReconcileFirst},
        StopCase{
            "CompletedWithoutItsBody",
            Found(ReserveOutcome::kCompleted, NextStep::kLookUpAnswer, OperationState::kComplete),
            StopReason::kAnswerGone, NextStep::kLookUpAnswer},
        StopCase{"Abandoned",
                 Found(ReserveOutcome::kCompleted, NextStep::kStop, OperationState::kComplete),
                 StopReason::kAbandoned, NextStep::kStop},
        StopCase{"Expired",
                 Found(ReserveOutcome::kExpired, NextStep::kLookUpAnswer, OperationState::kExpired),
                 StopReason::kAnswerGone, NextStep::kLookUpAnswer},
        StopCase{"ExpiredAndAbandoned",
                 Found(ReserveOutcome::kExpired, NextStep::kStop, OperationState::kExpired),
                 StopReason::kAbandoned, NextStep::kStop},
        StopCase{"MismatchWithAnOpenOne",
                 Found(ReserveOutcome::kFingerprintMismatch, NextStep::kSettleOtherFirst,
                       OperationState::kPending),
                 StopReason::kMismatch, NextStep::kSettleOtherFirst},
        StopCase{"MismatchWithAnEndedOne",
                 Found(ReserveOutcome::kFingerprintMismatch, NextStep::kUseOwnKey,
                       OperationState::kComplete),
                 StopReason::kMismatch, NextStep::kUseOwnKey},
        StopCase{"TooOld", TooOld(), StopReason::kTooOld, NextStep::kReconcileFirst},
        StopCase{
            "ANewNextStep",
            Found(ReserveOutcome::kAcquired, static_cast<NextStep>(77), OperationState::kPending),
            StopReason::kRefused, NextStep::kStop},
        StopCase{
            "NoNextStep",
            Found(ReserveOutcome::kInProgress, NextStep::kUnspecified, OperationState::kPending),
            StopReason::kRefused, NextStep::kStop},
        StopCase{"ANewOutcome",
                 Found(static_cast<ReserveOutcome>(77), NextStep::kStop, OperationState::kPending),
                 StopReason::kRefused, NextStep::kStop},
        StopCase{"AGrantWithoutALease", NoLease(), StopReason::kRefused, NextStep::kStop},
        StopCase{"ProceedInAnOutcomeThatIsNoGrant",
                 LeaseOfAnotherOutcome(ReserveOutcome::kCompleted), StopReason::kRefused,
                 NextStep::kStop}),
    [](const auto& info) { return info.param.name; });

TEST_F(AcquireTest, ReplaysWhatWasStored) {
  EXPECT_CALL(*connection, Reserve)
      .WillOnce(Return(Completed(Body("charged", 201), Verdict::kFailed)));
  const RunResult result = RunNothing();
  EXPECT_TRUE(result.has_answer());
  EXPECT_TRUE(result.replayed);
  EXPECT_EQ(result.response, Body("charged", 201));
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_FALSE(result.record_open);
}

TEST_F(AcquireTest, AVerdictAloneIsAnAnswer) {
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Completed(std::nullopt)));
  const RunResult result = RunNothing();
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(result.response, CachedResponse{});
  EXPECT_EQ(result.verdict, Verdict::kSucceeded);
}

// --- What is asked -------------------------------------------------------------------------------

TEST_F(AcquireTest, AsksWithAllThatTheCallerSaid) {
  request.fingerprint = Fingerprint{"sha256/jcs-1", std::string(32, 'f')};
  request.first_sent = environment->WallNow() - 5min;
  request.lease_duration = 40s;
  request.wait = 3s;
  request.operation_ref = "order 1";
  request.traceparent = "00-trace";
  request.labels = {{"team", "billing"}};
  request.dispatch_later = true;
  request.start_over = true;
  ReserveRequest asked;
  CallOptions call;
  EXPECT_CALL(*connection, Reserve)
      .WillOnce([&](const ReserveRequest& reserve, const CallOptions& with) {
        asked = reserve;
        call = with;
        return Completed(std::nullopt);
      });
  (void)RunNothing();
  EXPECT_EQ(asked.id, request.id);
  EXPECT_EQ(asked.fingerprint, request.fingerprint);
  EXPECT_EQ(asked.attempt_id, "00000000000000000000000000000001");
  EXPECT_EQ(asked.lease_duration, 40s);
  EXPECT_EQ(asked.wait_duration, 3s);
  EXPECT_EQ(asked.operation_age, 5min);
  EXPECT_EQ(asked.owner, (Owner{.operation_ref = "order 1", .traceparent = "00-trace"}));
  EXPECT_EQ(asked.labels, request.labels);
  EXPECT_TRUE(asked.dispatch_later);
  EXPECT_TRUE(asked.start_over);
  EXPECT_EQ(call.timeout, 13s) << "the wait comes on top";
}

TEST_F(AcquireTest, AnOperationOfTheFutureIsNew) {
  request.first_sent = environment->WallNow() + 5min;
  EXPECT_CALL(*connection, Reserve(Field(&ReserveRequest::operation_age, Duration(0)), _))
      .WillOnce(Return(Completed(std::nullopt)));
  (void)RunNothing();
}

TEST_F(AcquireTest, ALostAnswerIsAskedForWithTheSameAttempt) {
  std::vector<std::string> ids;
  EXPECT_CALL(*connection, Reserve)
      .Times(3)
      .WillRepeatedly([&](const ReserveRequest& reserve, const CallOptions&) {
        ids.push_back(reserve.attempt_id);
        absl::StatusOr<ReserveResponse> response = Acquired();
        if (ids.size() < 3) return absl::StatusOr<ReserveResponse>(Lost());
        response->outcome = ReserveOutcome::kAlreadyHeld;
        response->next_step = NextStep::kProceedUnlessStarted;
        return response;
      });
  ExpectComplete();
  EXPECT_TRUE(RunAnswering().has_answer());
  EXPECT_EQ(fn_calls, 1) << "it is its own attempt, and has not been started";
  EXPECT_THAT(ids, ElementsAre(ids[0], ids[0], ids[0]));
  EXPECT_THAT(environment->sleeps(), ElementsAre(50ms, 100ms));
}

TEST_F(AcquireTest, AnotherTryIsAnotherAttempt) {
  std::vector<std::string> ids;
  std::vector<Duration> waits;
  EXPECT_CALL(*connection, Reserve)
      .Times(3)
      .WillRepeatedly([&](const ReserveRequest& reserve, const CallOptions&) {
        ids.push_back(reserve.attempt_id);
        waits.push_back(reserve.wait_duration);
        return ids.size() < 3 ? InProgress(1s) : Acquired();
      });
  ExpectComplete();
  request.wait = 20s;
  EXPECT_TRUE(RunAnswering().has_answer());
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_NE(ids[1], ids[2]);
  EXPECT_THAT(waits, ElementsAre(20s, 19s, 18s));
  EXPECT_THAT(environment->sleeps(), ElementsAre(1s, 1s));
}

TEST_F(AcquireTest, AsksAgainOnlyWithinTheWait) {
  request.wait = 2001ms;
  EXPECT_CALL(*connection, Reserve).Times(3).WillRepeatedly(Return(InProgress(1s)));
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kInProgress);
  EXPECT_EQ(result.retry_after, 1s);
  EXPECT_THAT(environment->sleeps(), ElementsAre(1s, 1s));
}

TEST_F(AcquireTest, AtOnceIsAtOnceOnlyOnce) {
  request.wait = 300ms;
  EXPECT_CALL(*connection, Reserve).Times(4).WillRepeatedly(Return(InProgress(0ms)));
  (void)RunNothing();
  EXPECT_THAT(environment->sleeps(), ElementsAre(0ms, 50ms, 100ms));
}

TEST_F(AcquireTest, ANextAttemptThatIsGrantedLaterIsWaitedFor) {
  EXPECT_CALL(*connection, Reserve)
      .WillOnce(Return(Unresolved(NextStep::kReserveAgain, 5s)))
      .WillOnce(Return(Acquired(30s, 2)));
  ExpectComplete();
  uint32_t number = 0;
  EXPECT_TRUE(Run([&](Attempt& attempt) {
                number = attempt.number();
                return Answer("charged");
              }).has_answer());
  EXPECT_EQ(number, 2u);
  EXPECT_THAT(environment->sleeps(), ElementsAre(5s));
}

// --- The lease after a wait ----------------------------------------------------------------------

class WaitedTest : public AcquireTest {
 protected:
  void ExpectGrantAfter(Duration span) {
    EXPECT_CALL(*connection, Reserve)
        .WillOnce([this, span](const ReserveRequest&, const CallOptions&) {
          environment->Advance(span);
          return Acquired();
        });
  }
};

TEST_F(WaitedTest, APromptGrantIsNotRenewed) {
  ExpectGrantAfter(internal::kPromptAnswer);
  ExpectComplete();
  EXPECT_TRUE(RunAnswering().has_answer());
}

TEST_F(WaitedTest, AGrantAfterAWaitIsRenewedBeforeItStarts) {
  InSequence sequence;
  ExpectGrantAfter(internal::kPromptAnswer + 1ms);
  EXPECT_CALL(*connection, Renew).WillOnce(Return(RenewResponse{LeaseOf(30s)}));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  Duration remaining{0};
  (void)Run([&](Attempt& attempt) {
    remaining = attempt.remaining();
    return Answer("charged");
  });
  EXPECT_EQ(remaining, 27s) << "counts from the renewal";
}

TEST_F(WaitedTest, ASlowGrantWithoutAWaitCountsFromBeforeItWasSent) {
  request.wait = 0ms;
  ExpectGrantAfter(26999ms);
  ExpectComplete();
  Duration remaining{0};
  (void)Run([&](Attempt& attempt) {
    remaining = attempt.remaining();
    return Answer("charged");
  });
  EXPECT_EQ(remaining, 1ms);
}

TEST_F(WaitedTest, AGrantThatMayBeOverIsRenewedAnyhow) {
  request.wait = 0ms;
  ExpectGrantAfter(27s);
  EXPECT_CALL(*connection, Renew).WillOnce(Return(RenewResponse{LeaseOf(30s)}));
  ExpectComplete();
  EXPECT_TRUE(RunAnswering().has_answer());
}

TEST_F(WaitedTest, ALeaseThatWasLostMeanwhileIsReservedAnew) {
  EXPECT_CALL(*connection, Reserve)
      .WillOnce([this](const ReserveRequest&, const CallOptions&) {
        environment->Advance(5s);
        return Acquired();
      })
      .WillOnce(Return(Acquired()));
  EXPECT_CALL(*connection, Renew).WillOnce(Return(Refuse(ErrorReason::kLeaseLapsed)));
  ExpectRelease();
  ExpectComplete();
  EXPECT_TRUE(RunAnswering().has_answer());
  EXPECT_EQ(fn_calls, 1);
}

TEST_F(WaitedTest, ALeaseThatCannotBeConfirmedIsGivenBack) {
  options.retry.max_attempts = 2;
  ExpectGrantAfter(5s);
  EXPECT_CALL(*connection, Renew).Times(2).WillRepeatedly(Return(Lost()));
  ExpectRelease();
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kUnavailable);
  EXPECT_EQ(result.next_step, NextStep::kReserveAgain);
  EXPECT_FALSE(result.record_open);
}

// --- Attempts that are over before their answer arrives ------------------------------------------

TEST_F(AcquireTest, AnAttemptThatWasFreedMeanwhileIsFollowedByAnother) {
  std::vector<std::string> ids;
  EXPECT_CALL(*connection, Reserve)
      .Times(2)
      .WillRepeatedly([&](const ReserveRequest& reserve,
                          const CallOptions&) -> absl::StatusOr<ReserveResponse> {
        ids.push_back(reserve.attempt_id);
        if (ids.size() == 1) return Refuse(ErrorReason::kAttemptFinished);
        return Acquired();
      });
  ExpectComplete();
  EXPECT_TRUE(RunAnswering().has_answer());
  EXPECT_NE(ids[0], ids[1]);
}

TEST_F(AcquireTest, ButNotForEver) {
  EXPECT_CALL(*connection, Reserve)
      .Times(4)
      .WillRepeatedly(Return(Refuse(ErrorReason::kAttemptFinished)));
  EXPECT_EQ(RunNothing().stop, StopReason::kRefused);
}

TEST_F(AcquireTest, AnOwnLeaseThatLapsedUnseenIsGivenBack) {
  ReserveResponse lapsed = Unresolved();
  lapsed.lease = LeaseOf(0ms);
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(lapsed)).WillOnce(Return(Acquired()));
  ExpectRelease();
  ExpectComplete();
  EXPECT_TRUE(RunAnswering().has_answer());
}

TEST_F(AcquireTest, AnOwnLeaseThatCannotBeGivenBackStaysUnresolved) {
  ReserveResponse lapsed = Unresolved();
  lapsed.lease = LeaseOf(0ms);
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(lapsed));
  EXPECT_CALL(*connection, Release).WillOnce(Return(Refuse(ErrorReason::kOutcomeUnknown)));
  EXPECT_EQ(RunNothing().stop, StopReason::kUnresolved);
}

// --- The service cannot be reached, or refuses ---------------------------------------------------

TEST_F(AcquireTest, FailsClosed) {
  options.retry = RetryPolicy::UpTo(1s);
  request.wait = 0ms;
  EXPECT_CALL(*connection, Reserve).Times(5).WillRepeatedly(Return(Lost()));
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kUnavailable);
  EXPECT_EQ(result.next_step, NextStep::kReserveAgain);
  EXPECT_EQ(result.refusal, std::nullopt);
  EXPECT_FALSE(result.unprotected);
  EXPECT_THAT(environment->sleeps(), ElementsAre(50ms, 100ms, 200ms, 400ms));
  EXPECT_THAT(result.detail, HasSubstr("connection reset"));
}

TEST_F(AcquireTest, TheWaitComesOnTopOfTheRetryPolicy) {
  options.retry = {.total = 1s, .max_attempts = 2};
  request.wait = 20s;
  EXPECT_CALL(*connection, Reserve)
      .WillOnce([this](const ReserveRequest&, const CallOptions&) {
        environment->Advance(15s);  // it waited, and then the connection broke
        return Lost();
      })
      .WillOnce(Return(Completed(std::nullopt)));
  EXPECT_TRUE(RunNothing().has_answer());
}

struct FailureCase {
  std::string name;
  absl::Status failure;
  StopReason stop;
  NextStep next_step;
  bool may_go_on = false;
};

std::ostream& operator<<(std::ostream& out, const FailureCase& c) { return out << c.name; }

class FailureTest : public AcquireTest, public ::testing::WithParamInterface<FailureCase> {
 protected:
  FailureTest() { options.retry = RetryPolicy::Never(); }
};

TEST_P(FailureTest, Stops) {
  const FailureCase& c = GetParam();
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(c.failure));
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, c.stop) << "got " << Name(result.stop);
  EXPECT_EQ(result.next_step, c.next_step) << "got " << Name(result.next_step);
  EXPECT_EQ(result.refusal, Refused(c.failure));
}

TEST_P(FailureTest, GoesOnOnlyWhereItIsAllowedAndAnOutage) {
  const FailureCase& c = GetParam();
  options.allow_unprotected = true;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(c.failure));
  const RunResult result = RunAnswering();
  EXPECT_EQ(result.unprotected, c.may_go_on);
  EXPECT_EQ(result.has_answer(), c.may_go_on);
  EXPECT_EQ(fn_calls, c.may_go_on ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, FailureTest,
    ::testing::Values(FailureCase{"Unreachable", Lost(), StopReason::kUnavailable,
                                  NextStep::kReserveAgain, true},
                      FailureCase{"TimedOut", absl::DeadlineExceededError("10 s"),
                                  StopReason::kUnavailable, NextStep::kReserveAgain, true},
                      FailureCase{"Overloaded", Refuse(ErrorReason::kOverloaded),
                                  StopReason::kUnavailable, NextStep::kReserveAgain, true},
                      FailureCase{"StoreGone", Refuse(ErrorReason::kStoreUnavailable),
                                  StopReason::kUnavailable, NextStep::kReserveAgain, true},
                      FailureCase{"OverQuota", Refuse(ErrorReason::kQuotaExceeded, 3s),
                                  StopReason::kRefused, NextStep::kReserveAgain},
                      FailureCase{"StoreFull", Refuse(ErrorReason::kStoreFull),
                                  StopReason::kRefused, NextStep::kStop},
                      FailureCase{"AccessDenied", Refuse(ErrorReason::kAccessDenied),
                                  StopReason::kRefused, NextStep::kStop},
                      FailureCase{"NoSuchNamespace", Refuse(ErrorReason::kNamespaceNotFound),
                                  StopReason::kRefused, NextStep::kStop},
                      FailureCase{"NotTheService", absl::UnimplementedError("unknown method"),
                                  StopReason::kRefused, NextStep::kStop},
                      FailureCase{"NoToken", absl::UnauthenticatedError("who are you"),
                                  StopReason::kRefused, NextStep::kStop}),
    [](const auto& info) { return info.param.name; });

// --- Cancellation before the effect --------------------------------------------------------------

class CancelTest : public AcquireTest {
 protected:
  CancelTest() { options.cancellation = cancellation; }
  Cancellation cancellation;
};

TEST_F(CancelTest, BeforeItBeganNothingIsAsked) {
  cancellation.Cancel();
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kCancelled);
  EXPECT_FALSE(result.record_open);
}

TEST_F(CancelTest, WhatWasHeldBeforeTheStartIsFreed) {
  EXPECT_CALL(*connection, Reserve).WillOnce([this](const ReserveRequest&, const CallOptions&) {
    cancellation.Cancel();
    return Acquired();
  });
  ExpectRelease();
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kCancelled);
  EXPECT_EQ(result.next_step, NextStep::kReserveAgain);
  EXPECT_FALSE(result.record_open);
}

TEST_F(CancelTest, AWaitThatIsGivenUpIsFollowedByTheQuestionWhatItGot) {
  options.retry = RetryPolicy::Never();
  std::vector<ReserveRequest> asked;
  EXPECT_CALL(*connection, Reserve)
      .Times(2)
      .WillRepeatedly([&](const ReserveRequest& reserve,
                          const CallOptions& call) -> absl::StatusOr<ReserveResponse> {
        asked.push_back(reserve);
        if (asked.size() == 2) return Acquired();
        EXPECT_TRUE(call.stop.stop_possible());
        cancellation.Cancel();
        EXPECT_TRUE(call.stop.stop_requested());
        return absl::CancelledError("given up");
      });
  ExpectRelease();
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kCancelled);
  EXPECT_EQ(asked[0].attempt_id, asked[1].attempt_id);
  EXPECT_EQ(asked[1].wait_duration, 0ms);
  EXPECT_THAT(environment->sleeps(), IsEmpty());
}

TEST_F(CancelTest, AnAnswerThatIsThereIsGiven) {
  EXPECT_CALL(*connection, Reserve).WillOnce([this](const ReserveRequest&, const CallOptions&) {
    cancellation.Cancel();
    return Completed(Body("charged"));
  });
  EXPECT_TRUE(RunNothing().has_answer());
}

TEST_F(CancelTest, WaitingForAnotherAttemptEnds) {
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(InProgress(1s)));
  environment->OnSleep([this](Duration) { cancellation.Cancel(); });
  EXPECT_EQ(RunNothing().stop, StopReason::kCancelled);
}

TEST_F(CancelTest, WhatCannotBeFoundOutIsSaid) {
  EXPECT_CALL(*connection, Reserve)
      .WillRepeatedly([this](const ReserveRequest&, const CallOptions&) {
        cancellation.Cancel();
        return Lost();
      });
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kCancelled);
  EXPECT_TRUE(result.record_open) << "it may be held until its lease ends";
  Duration slept{0};
  for (const Duration span : environment->sleeps()) slept += span;
  EXPECT_LT(slept, internal::kAskAfterCancel);
}

TEST_F(CancelTest, AFreeingThatIsNotConfirmedIsSaid) {
  options.settle_retry = {.max_attempts = 2};
  EXPECT_CALL(*connection, Reserve).WillOnce([this](const ReserveRequest&, const CallOptions&) {
    cancellation.Cancel();
    return Acquired();
  });
  EXPECT_CALL(*connection, Release).Times(2).WillRepeatedly(Return(Lost()));
  EXPECT_TRUE(RunNothing().record_open);
}

}  // namespace
}  // namespace idempotency::testing
