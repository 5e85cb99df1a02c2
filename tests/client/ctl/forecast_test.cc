// What a resolve would be answered, by what the server shows. The rules themselves are tested in
// tests/keystore/core/operator_test.cc.
#include "client/ctl/forecast.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idempotency::ctl {
namespace {

using Answer = Forecast::Answer;

// An operation that was acquired at 900, and what became of it.
constexpr int64_t kAcquired = 900;
constexpr int64_t kMarked = 1000;

google::protobuf::Timestamp At(int64_t second) {
  google::protobuf::Timestamp time;
  time.set_seconds(second);
  return time;
}

void AddEvent(v1::EventKind kind, int64_t second, uint32_t attempt, v1::Operation* operation) {
  v1::Event* const event = operation->add_history();
  event->set_kind(kind);
  *event->mutable_time() = At(second);
  event->set_attempt(attempt);
  event->set_actor("bob");
  *operation->mutable_update_time() = At(second);
}

v1::Operation InState(v1::OperationState state) {
  v1::Operation operation;
  operation.set_state(state);
  operation.set_attempt(1);
  operation.set_etag("1.2");
  AddEvent(v1::EVENT_KIND_ACQUIRED, kAcquired, 1, &operation);
  return operation;
}

v1::Operation Unresolved() {
  v1::Operation operation = InState(v1::OPERATION_STATE_UNRESOLVED);
  AddEvent(v1::EVENT_KIND_MARKED_UNRESOLVED, kMarked, 1, &operation);
  return operation;
}

v1::Operation Settled(v1::OperationState state, v1::Verdict verdict) {
  v1::Operation operation = InState(state);
  AddEvent(v1::EVENT_KIND_MARKED_UNRESOLVED, kMarked, 1, &operation);
  AddEvent(v1::EVENT_KIND_RESOLVED, kMarked + 1, 1, &operation);
  operation.set_verdict(verdict);
  return operation;
}

v1::ResolveOperationRequest Completed() {
  v1::ResolveOperationRequest request;
  request.mutable_completed()->set_verdict(v1::VERDICT_SUCCEEDED);
  return request;
}

v1::ResolveOperationRequest NotExecuted() {
  v1::ResolveOperationRequest request;
  request.mutable_not_executed();
  return request;
}

v1::ResolveOperationRequest Abandoned() {
  v1::ResolveOperationRequest request;
  request.mutable_abandoned();
  return request;
}

// At second 1030, by a settle_duration of a minute.
Forecast Ask(const v1::ResolveOperationRequest& request, const v1::Operation& seen,
             std::optional<absl::Duration> settle = absl::Seconds(60), int64_t now = 1030) {
  return ForecastResolve(request, seen, settle, absl::FromUnixSeconds(now));
}

TEST(Forecast, WhatIsUnresolvedIsSettled) {
  EXPECT_EQ(Ask(Completed(), Unresolved()).answer, Answer::kSettles);
  EXPECT_EQ(Ask(Abandoned(), Unresolved()).answer, Answer::kSettles);
}

TEST(Forecast, NotExecutedWaitsForTheSettleDuration) {
  const Forecast early = Ask(NotExecuted(), Unresolved());
  EXPECT_EQ(early.answer, Answer::kRefuses);
  EXPECT_EQ(early.reason, "NOT_SETTLED");
  EXPECT_EQ(early.message,
            "the owner's call may still arrive; try again in 30s (1970-01-01T00:17:40Z)");
  EXPECT_EQ(Ask(NotExecuted(), Unresolved(), absl::Seconds(60), kMarked + 59).answer,
            Answer::kRefuses);
  EXPECT_EQ(Ask(NotExecuted(), Unresolved(), absl::Seconds(60), kMarked + 60).answer,
            Answer::kSettles);
}

TEST(Forecast, WithoutTheSettleDurationNobodyKnows) {
  const Forecast forecast = Ask(NotExecuted(), Unresolved(), std::nullopt);
  EXPECT_EQ(forecast.answer, Answer::kUnknown);
  EXPECT_EQ(forecast.reason, "NOT_SETTLED");
  EXPECT_EQ(Ask(Completed(), Unresolved(), std::nullopt).answer, Answer::kSettles);
}

// What was marked after its lease had lapsed counts from the lapse.
TEST(Forecast, TheSettleDurationCountsFromTheLapse) {
  v1::Operation seen = InState(v1::OPERATION_STATE_UNRESOLVED);
  AddEvent(v1::EVENT_KIND_LEASE_LAPSED, 960, 1, &seen);
  AddEvent(v1::EVENT_KIND_MARKED_UNRESOLVED, 1010, 1, &seen);
  EXPECT_EQ(Ask(NotExecuted(), seen, absl::Seconds(60), 1019).answer, Answer::kRefuses);
  EXPECT_EQ(Ask(NotExecuted(), seen, absl::Seconds(60), 1020).answer, Answer::kSettles);
}

// A retried attempt that did nothing leaves the earlier one's unknown, and when that began.
TEST(Forecast, TheSettleDurationCountsFromTheAttemptThatIsUnknown) {
  v1::Operation seen = Unresolved();
  AddEvent(v1::EVENT_KIND_ACQUIRED, 1020, 2, &seen);
  AddEvent(v1::EVENT_KIND_RELEASED, 1025, 2, &seen);
  EXPECT_EQ(Ask(NotExecuted(), seen, absl::Seconds(60), kMarked + 60).answer, Answer::kSettles);
}

TEST(Forecast, ALiveLeaseIsRefused) {
  v1::Operation seen = InState(v1::OPERATION_STATE_PENDING);
  *seen.mutable_lease_expire_time() = At(1040);
  const Forecast forecast = Ask(Completed(), seen);
  EXPECT_EQ(forecast.answer, Answer::kRefuses);
  EXPECT_EQ(forecast.reason, "LEASE_LIVE");
  EXPECT_EQ(forecast.message, "an owner is at work; its lease ends in 10s (1970-01-01T00:17:20Z)");
}

TEST(Forecast, WhatHasChangedIsRefusedFirst) {
  for (const v1::OperationState state :
       {v1::OPERATION_STATE_PENDING, v1::OPERATION_STATE_UNRESOLVED,
        v1::OPERATION_STATE_COMPLETE}) {
    v1::ResolveOperationRequest request = NotExecuted();
    request.set_etag("1.1");
    EXPECT_EQ(Ask(request, InState(state)).reason, "ETAG_MISMATCH");
  }
  v1::ResolveOperationRequest request = Completed();
  request.set_etag("1.2");
  EXPECT_EQ(Ask(request, Unresolved()).answer, Answer::kSettles);
}

TEST(Forecast, WhatEndedByItselfIsRefused) {
  v1::Operation seen = InState(v1::OPERATION_STATE_COMPLETE);
  AddEvent(v1::EVENT_KIND_COMPLETED, kMarked, 1, &seen);
  seen.set_verdict(v1::VERDICT_SUCCEEDED);
  for (const auto& request : {Completed(), NotExecuted(), Abandoned()}) {
    const Forecast forecast = Ask(request, seen);
    EXPECT_EQ(forecast.answer, Answer::kRefuses);
    EXPECT_EQ(forecast.reason, "WRONG_STATE");
    EXPECT_EQ(forecast.message, "it is COMPLETE, and not UNRESOLVED");
  }
}

// A repeat is taken, whatever the etag; whether it is one, only the server can tell.
TEST(Forecast, WhatWasSettledMayBeRepeated) {
  const v1::Operation done = Settled(v1::OPERATION_STATE_COMPLETE, v1::VERDICT_SUCCEEDED);
  v1::ResolveOperationRequest again = Completed();
  again.set_etag("1.1");
  const Forecast forecast = Ask(again, done);
  EXPECT_EQ(forecast.answer, Answer::kUnknown);
  EXPECT_EQ(forecast.reason, "WRONG_STATE");
  EXPECT_EQ(forecast.message,
            "it was settled 29s ago (1970-01-01T00:16:41Z) by bob: a repeat of that is taken, all "
            "else refused");
  const v1::Operation freed = Settled(v1::OPERATION_STATE_FREED, v1::VERDICT_UNSPECIFIED);
  EXPECT_EQ(Ask(NotExecuted(), freed).answer, Answer::kUnknown);
  const v1::Operation closed = Settled(v1::OPERATION_STATE_COMPLETE, v1::VERDICT_ABANDONED);
  EXPECT_EQ(Ask(Abandoned(), closed).answer, Answer::kSettles);
}

TEST(Forecast, WhatWasSettledOtherwiseIsRefused) {
  const v1::Operation failed = Settled(v1::OPERATION_STATE_COMPLETE, v1::VERDICT_FAILED);
  EXPECT_EQ(Ask(Completed(), failed).reason, "WRONG_STATE");
  EXPECT_EQ(Ask(Completed(), failed).answer, Answer::kRefuses);
  EXPECT_EQ(Ask(Abandoned(), failed).answer, Answer::kRefuses);
  const v1::Operation closed = Settled(v1::OPERATION_STATE_COMPLETE, v1::VERDICT_ABANDONED);
  EXPECT_EQ(Ask(NotExecuted(), closed).answer, Answer::kRefuses);
}

TEST(Forecast, WhatWasGivenUpMayBeKnownAfterAll) {
  const v1::Operation closed = Settled(v1::OPERATION_STATE_COMPLETE, v1::VERDICT_ABANDONED);
  EXPECT_EQ(Ask(Completed(), closed).answer, Answer::kSettles);
  v1::ResolveOperationRequest stale = Completed();
  stale.set_etag("1.1");
  EXPECT_EQ(Ask(stale, closed).reason, "ETAG_MISMATCH");
}

// Its owner's own report replaces what an operator assumed, and so does a new attempt.
TEST(Forecast, AResolveThatNoLongerHoldsIsNotRepeated) {
  v1::Operation reported = Settled(v1::OPERATION_STATE_COMPLETE, v1::VERDICT_SUCCEEDED);
  AddEvent(v1::EVENT_KIND_COMPLETED, kMarked + 5, 1, &reported);
  EXPECT_EQ(Ask(NotExecuted(), reported).answer, Answer::kRefuses);
  v1::Operation again = Settled(v1::OPERATION_STATE_UNRESOLVED, v1::VERDICT_UNSPECIFIED);
  AddEvent(v1::EVENT_KIND_ACQUIRED, kMarked + 5, 1, &again);
  AddEvent(v1::EVENT_KIND_LEASE_LAPSED, kMarked + 10, 1, &again);
  EXPECT_EQ(Ask(NotExecuted(), again, absl::Seconds(60), kMarked + 69).reason, "NOT_SETTLED");
  EXPECT_EQ(Ask(NotExecuted(), again, absl::Seconds(60), kMarked + 70).answer, Answer::kSettles);
}

}  // namespace
}  // namespace idempotency::ctl
