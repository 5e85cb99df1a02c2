// The caller's look-up: when it is asked, and what its answer settles.
#include <string>
#include <utility>
#include <vector>

#include "client/src/acquire.h"
#include "tests/client/run/run_fixture.h"

namespace idempotency::testing {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Return;

LookUp Happened(Verdict verdict = Verdict::kSucceeded) {
  return LookUp{.found = LookUp::Found::kHappened,
                .verdict = verdict,
                .response = Body("found"),
                .provider_request_id = "req_1",
                .evidence = "GET /charges"};
}
LookUp NotThere() { return LookUp{.found = LookUp::Found::kNotThere, .evidence = "404"}; }

class LookUpTest : public RunFixture {
 protected:
  void Finds(LookUp found) {
    options.look_up = [this, found](const Operation& operation) {
      asked.push_back(operation);
      return found;
    };
  }
  std::vector<Operation> asked;
};

TEST_F(LookUpTest, WhatHappenedIsAnAnswerThoughItMayNotBeSettled) {
  Finds(Happened());
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Unresolved()));
  const RunResult result = RunNothing();
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(result.response, Body("found"));
  EXPECT_TRUE(result.record_open) << "no role to settle it";
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].state, OperationState::kUnresolved);
}

TEST_F(LookUpTest, WhatHappenedIsSettledByAReconciler) {
  Finds(Happened(Verdict::kFailed));
  options.reconciler = "billing-reconciler";
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Unresolved()));
  EXPECT_CALL(
      *connection,
      Resolve(AllOf(Field(&ResolveRequest::resolution, ResolveRequest::Resolution::kCompleted),
                    Field(&ResolveRequest::verdict, Verdict::kFailed),
                    Field(&ResolveRequest::response, Body("found")),
                    Field(&ResolveRequest::actor, "billing-reconciler"),
                    Field(&ResolveRequest::reason, "GET /charges"),
                    Field(&ResolveRequest::provider_request_id, "req_1"),
                    Field(&ResolveRequest::etag, "etag-1")),
              _))
      .WillOnce(Return(Lost()))
      .WillOnce(Return(Operation{.state = OperationState::kComplete}));
  const RunResult result = RunNothing();
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_FALSE(result.record_open);
  EXPECT_EQ(result.operation->state, OperationState::kComplete);
}

TEST_F(LookUpTest, WhatIsNotThereIsSettledAndDone) {
  Finds(NotThere());
  options.reconciler = "billing-reconciler";
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Unresolved())).WillOnce(Return(Acquired()));
  EXPECT_CALL(
      *connection,
      Resolve(Field(&ResolveRequest::resolution, ResolveRequest::Resolution::kNotExecuted), _))
      .WillOnce(Return(Operation{.state = OperationState::kFreed}));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  EXPECT_TRUE(Run([](Attempt&) { return Answer("charged"); }).has_answer());
  EXPECT_EQ(fn_calls, 1);
}

TEST_F(LookUpTest, WithoutTheRoleWhatIsNotThereStaysUnresolved) {
  Finds(NotThere());
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Unresolved()));
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
  EXPECT_EQ(result.next_step, NextStep::kReconcileFirst);
}

TEST_F(LookUpTest, WhatMayStillArriveIsLookedUpAgainLater) {
  Finds(NotThere());
  options.reconciler = "billing-reconciler";
  EXPECT_CALL(*connection, Reserve)
      .WillOnce(Return(Unresolved()))
      .WillOnce(Return(Unresolved()))
      .WillOnce(Return(Acquired()));
  EXPECT_CALL(*connection, Resolve)
      .WillOnce(Return(Refuse(ErrorReason::kNotSettled, 7s)))
      .WillOnce(Return(Operation{.state = OperationState::kFreed}));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  EXPECT_TRUE(Run([](Attempt&) { return Answer("charged"); }).has_answer());
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_THAT(environment->sleeps(), ElementsAre(7s));
}

TEST_F(LookUpTest, ButNotLongerThanTheCallerWaits) {
  Finds(NotThere());
  options.reconciler = "billing-reconciler";
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Unresolved()));
  EXPECT_CALL(*connection, Resolve).WillOnce(Return(Refuse(ErrorReason::kNotSettled, 20s)));
  const RunResult result = RunNothing();
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
  EXPECT_EQ(result.retry_after, 20s);
  EXPECT_EQ(result.refusal->reason, ErrorReason::kNotSettled);
}

TEST_F(LookUpTest, WhatOthersKeepChangingIsGivenUp) {
  Finds(NotThere());
  options.reconciler = "billing-reconciler";
  EXPECT_CALL(*connection, Reserve)
      .Times(internal::kMaxLookUps + 1)
      .WillRepeatedly(Return(Unresolved()));
  EXPECT_CALL(*connection, Resolve)
      .Times(internal::kMaxLookUps)
      .WillRepeatedly(Return(Refuse(ErrorReason::kEtagMismatch)));
  EXPECT_EQ(RunNothing().stop, StopReason::kUnresolved);
}

TEST_F(LookUpTest, AnAnswerThatIsGoneMayBeLookedUp) {
  Finds(Happened(Verdict::kSucceeded));
  ReserveResponse expired =
      Found(ReserveOutcome::kExpired, NextStep::kLookUpAnswer, OperationState::kExpired);
  expired.operation->verdict = Verdict::kFailed;
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(expired));
  const RunResult result = RunNothing();
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(result.response, Body("found"));
  EXPECT_EQ(result.verdict, Verdict::kFailed) << "as recorded";
  EXPECT_FALSE(result.record_open);
}

TEST_F(LookUpTest, AnAnswerThatIsGoneIsNotAskedForTwice) {
  Finds(NotThere());
  EXPECT_CALL(*connection, Reserve)
      .WillOnce(Return(
          Found(ReserveOutcome::kExpired, NextStep::kLookUpAnswer, OperationState::kExpired)));
  EXPECT_EQ(RunNothing().stop, StopReason::kAnswerGone);
}

TEST_F(LookUpTest, AnOldOperationThatIsNotThereIsStartedOver) {
  Finds(NotThere());
  EXPECT_CALL(*connection, Reserve(Field(&ReserveRequest::start_over, false), _))
      .WillOnce(Return(ReserveResponse{.outcome = ReserveOutcome::kTooOld,
                                       .next_step = NextStep::kReconcileFirst}));
  EXPECT_CALL(*connection, Reserve(Field(&ReserveRequest::start_over, true), _))
      .WillOnce(Return(Acquired()));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  EXPECT_TRUE(Run([](Attempt&) { return Answer("charged"); }).has_answer());
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].id, request.id);
}

TEST_F(LookUpTest, AnOldOperationThatHappenedIsAnAnswer) {
  Finds(Happened());
  EXPECT_CALL(*connection, Reserve)
      .WillOnce(Return(ReserveResponse{.outcome = ReserveOutcome::kTooOld,
                                       .next_step = NextStep::kReconcileFirst}));
  const RunResult result = RunNothing();
  EXPECT_TRUE(result.has_answer());
  EXPECT_FALSE(result.record_open) << "there is none";
}

// --- After an own unknown outcome ----------------------------------------------------------------

EffectResult TimedOut() {
  EffectResult effect = EffectResult::Failed(absl::DeadlineExceededError("30 s"));
  effect.provider_request_id = "req_0";
  return effect;
}

TEST_F(LookUpTest, AnOwnTimeoutThatHappenedIsCompleted) {
  Finds(Happened(Verdict::kFailed));
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(30s, 2)));
  EXPECT_CALL(*connection, Complete(AllOf(Field(&CompleteRequest::verdict, Verdict::kFailed),
                                          Field(&CompleteRequest::response, Body("found")),
                                          Field(&CompleteRequest::provider_request_id, "req_1")),
                                    _))
      .WillOnce(Return(Done()));
  const RunResult result = Run([](Attempt&) { return TimedOut(); });
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(result.response, Body("found"));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].provider_request_id, "req_0");
  EXPECT_EQ(asked[0].attempt, 2u);
}

TEST_F(LookUpTest, AnOwnTimeoutThatIsNotThereYetStaysUnknown) {
  Finds(NotThere());
  options.reconciler = "billing-reconciler";
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired()));
  EXPECT_CALL(*connection,
              MarkUnresolved(AllOf(Field(&MarkUnresolvedRequest::cause, UnresolvedCause::kTimeout),
                                   Field(&MarkUnresolvedRequest::detail, "30 s; look-up: 404")),
                             _))
      .WillOnce(Return(Marked()));
  EXPECT_EQ(Run([](Attempt&) { return TimedOut(); }).stop, StopReason::kUnresolved);
}

TEST_F(LookUpTest, IsNotAskedWhereTheOutcomeIsKnown) {
  Finds(Happened());
  EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired()));
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  EXPECT_EQ(Run([](Attempt&) { return Answer("charged"); }).response, Body("charged"));
  EXPECT_THAT(asked, IsEmpty());
}

}  // namespace
}  // namespace idempotency::testing
