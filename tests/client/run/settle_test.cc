// Every way out of a Run settles the operation, and the caller gets the real answer.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/run/run_fixture.h"

namespace idempotency::testing {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::Return;

class SettleTest : public RunFixture {
 protected:
  SettleTest() { options.cancellation = cancellation; }

  void ExpectAcquired(uint32_t attempt = 1) {
    EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired(30s, attempt)));
  }
  auto WithToken() { return Field(&ReleaseRequest::fencing_token, kToken); }

  Cancellation cancellation;
};

// --- What comes back, and what is reported -------------------------------------------------------

struct Exit {
  std::string name;
  EffectResult effect;
  Disposition reported;
  StopReason stop = StopReason::kNone;
  UnresolvedCause cause = UnresolvedCause::kOther;
  bool reconcile_first = false;
};

std::ostream& operator<<(std::ostream& out, const Exit& c) { return out << c.name; }

class ExitTest : public SettleTest, public ::testing::WithParamInterface<Exit> {
 protected:
  void ExpectReport(const Exit& c) {
    switch (c.reported) {
      case Disposition::kSucceeded:
      case Disposition::kFailed: {
        const Verdict verdict =
            c.reported == Disposition::kSucceeded ? Verdict::kSucceeded : Verdict::kFailed;
        EXPECT_CALL(*connection, Complete(AllOf(Field(&CompleteRequest::verdict, verdict),
                                                Field(&CompleteRequest::id, request.id),
                                                Field(&CompleteRequest::fencing_token, kToken)),
                                          _))
            .WillOnce(Return(Done()));
        return;
      }
      case Disposition::kNothingHappened:
        EXPECT_CALL(*connection, Release(AllOf(Field(&ReleaseRequest::id, request.id),
                                               Field(&ReleaseRequest::fencing_token, kToken)),
                                         _))
            .WillOnce(Return(ReleaseResponse{OperationState::kFreed}));
        return;
      case Disposition::kUnknown:
        EXPECT_CALL(
            *connection,
            MarkUnresolved(AllOf(Field(&MarkUnresolvedRequest::cause, c.cause),
                                 Field(&MarkUnresolvedRequest::reconcile_first, c.reconcile_first),
                                 Field(&MarkUnresolvedRequest::id, request.id),
                                 Field(&MarkUnresolvedRequest::fencing_token, kToken)),
                           _))
            .WillOnce(Return(Marked()));
        return;
    }
  }
};

TEST_P(ExitTest, IsReportedOnce) {
  const Exit& c = GetParam();
  ExpectAcquired();
  ExpectReport(c);
  const RunResult result = Run([&](Attempt&) { return c.effect; });
  EXPECT_EQ(result.stop, c.stop) << "got " << Name(result.stop);
  EXPECT_FALSE(result.record_open);
  EXPECT_FALSE(result.replayed);
  EXPECT_EQ(result.effect_error, c.effect.error);
  if (c.effect.response.has_value()) EXPECT_EQ(result.response, c.effect.response);
}

EffectResult Certainly(EffectResult::Certainty certainty, EffectResult effect) {
  effect.certainty = certainty;
  return effect;
}

INSTANTIATE_TEST_SUITE_P(
    All, ExitTest,
    ::testing::Values(
        Exit{"Succeeded", Answer("charged"), Disposition::kSucceeded},
        Exit{"Declined", Answer("declined", 402), Disposition::kFailed},
        Exit{"TooManyRequests", Answer("later", 429), Disposition::kNothingHappened,
             StopReason::kNothingHappened},
        Exit{"ServerError", Answer("oops", 500), Disposition::kUnknown, StopReason::kUnresolved,
             UnresolvedCause::kServerError},
        Exit{"DeadlineExceeded", EffectResult::Failed(absl::DeadlineExceededError("30 s")),
             Disposition::kUnknown, StopReason::kUnresolved, UnresolvedCause::kTimeout},
        Exit{"ConnectionLost", EffectResult::Failed(Lost()), Disposition::kUnknown,
             StopReason::kUnresolved, UnresolvedCause::kConnectionLost},
        Exit{"NeverSent", EffectResult::NothingHappened(Lost()), Disposition::kNothingHappened,
             StopReason::kNothingHappened},
        Exit{"CertainlyNothingWhateverTheTablesSay",
             Certainly(EffectResult::Certainty::kNothingHappened, Answer("oops", 500)),
             Disposition::kNothingHappened, StopReason::kNothingHappened},
        Exit{"UnknownWhateverTheTablesSay",
             Certainly(EffectResult::Certainty::kUnknown, Answer("charged")), Disposition::kUnknown,
             StopReason::kUnresolved},
        Exit{"NeitherAnswerNorError", EffectResult{}, Disposition::kUnknown,
             StopReason::kUnresolved}),
    [](const auto& info) { return info.param.name; });

TEST_F(SettleTest, AFailureThatIsAStatusAloneCanBeReplayed) {
  options.classify = ClassifyGrpc;
  CachedResponse replayable;
  replayable.status = CachedResponse::GrpcCode{5};
  replayable.status_message = "no such account";
  ExpectAcquired();
  EXPECT_CALL(*connection, Complete(AllOf(Field(&CompleteRequest::verdict, Verdict::kFailed),
                                          Field(&CompleteRequest::response, replayable)),
                                    _))
      .WillOnce(Return(Done()));
  const RunResult result =
      Run([](Attempt&) { return EffectResult::Failed(absl::NotFoundError("no such account")); });
  EXPECT_EQ(result.response, replayable);
  EXPECT_EQ(result.effect_error, absl::NotFoundError("no such account"));
}

TEST_F(SettleTest, TheClassifierKnowsTheAttempt) {
  uint32_t attempt = 0;
  options.classify = [&](const EffectResult& effect) {
    attempt = effect.attempt;
    return Classification{.disposition = Disposition::kUnknown,
                          .cause = UnresolvedCause::kServerError,
                          .reconcile_first = true};
  };
  ExpectAcquired(3);
  EXPECT_CALL(*connection,
              MarkUnresolved(AllOf(Field(&MarkUnresolvedRequest::reconcile_first, true),
                                   Field(&MarkUnresolvedRequest::retry_after, Optional(4s)),
                                   Field(&MarkUnresolvedRequest::provider_request_id, "req_9"),
                                   Field(&MarkUnresolvedRequest::detail, "no answer")),
                             _))
      .WillOnce(Return(Marked()));
  const RunResult result = Run([](Attempt&) {
    EffectResult effect = EffectResult::Failed(absl::UnknownError("no answer"));
    effect.retry_after = 4s;
    effect.provider_request_id = "req_9";
    return effect;
  });
  EXPECT_EQ(attempt, 3u);
  EXPECT_EQ(result.next_step, NextStep::kReserveAgain) << "as the service says";
  EXPECT_EQ(result.retry_after, 2s);
}

TEST_F(SettleTest, ARetriedAttemptThatDidNothingLeavesTheEarlierOneUnknown) {
  ExpectAcquired(2);
  EXPECT_CALL(*connection, Release).WillOnce(Return(ReleaseResponse{OperationState::kUnresolved}));
  const RunResult result = Run([](Attempt&) { return Answer("later", 429); });
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
  EXPECT_EQ(result.next_step, NextStep::kReserveAgain);
}

// --- Exceptions ----------------------------------------------------------------------------------

[[noreturn]] void Throw(const std::string& what) {
  std::rethrow_exception(std::make_exception_ptr(std::runtime_error(what)));
}

TEST_F(SettleTest, AnExceptionIsUnknownAndGoesOn) {
  ExpectAcquired();
  EXPECT_CALL(*connection,
              MarkUnresolved(Field(&MarkUnresolvedRequest::cause, UnresolvedCause::kOther), _))
      .WillOnce(Return(Lost()))
      .WillOnce([this](const MarkUnresolvedRequest&, const CallOptions&) {
        cancellation.Cancel();
        return Marked();
      });
  EXPECT_THROW((void)Run([](Attempt& attempt) -> EffectResult {
                 attempt.OnStop([] { FAIL() << "called after fn threw"; });
                 Throw("boom");
               }),
               std::runtime_error);
  Advance(1h);
}

TEST_F(SettleTest, AnExceptionBeforeTheDispatchFreesTheKey) {
  request.dispatch_later = true;
  ExpectAcquired();
  EXPECT_CALL(*connection, Release(WithToken(), _))
      .WillOnce(Return(ReleaseResponse{OperationState::kFreed}));
  EXPECT_THROW((void)Run([](Attempt&) -> EffectResult { Throw("boom"); }), std::runtime_error);
}

TEST_F(SettleTest, AnExceptionOfTheClassifierIsUnknown) {
  options.classify = [](const EffectResult&) -> Classification { Throw("boom"); };
  ExpectAcquired();
  EXPECT_CALL(*connection, MarkUnresolved).WillOnce(Return(Marked()));
  EXPECT_THROW((void)Run([](Attempt&) { return Answer("charged"); }), std::runtime_error);
}

// --- Cancellation and lost leases while fn runs --------------------------------------------------

TEST_F(SettleTest, ACancelledCallThatHappenedIsRecorded) {
  ExpectAcquired();
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Lost())).WillOnce(Return(Done()));
  bool told = false;
  const RunResult result = Run([&](Attempt& attempt) {
    const std::stop_callback on_stop(attempt.stop_token(), [&] { told = true; });
    cancellation.Cancel();
    EXPECT_TRUE(attempt.should_stop());
    return Answer("charged");
  });
  EXPECT_TRUE(told);
  EXPECT_TRUE(result.has_answer()) << "it happened, whatever the caller wanted";
  EXPECT_FALSE(result.record_open);
}

TEST_F(SettleTest, ACallThatWasCutOffIsUnknown) {
  ExpectAcquired();
  EXPECT_CALL(
      *connection,
      MarkUnresolved(Field(&MarkUnresolvedRequest::cause, UnresolvedCause::kOwnerCancelled), _))
      .WillOnce(Return(Marked()));
  const RunResult result = Run([&](Attempt&) {
    cancellation.Cancel();
    return EffectResult::Failed(absl::CancelledError("cut off"));
  });
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
}

TEST_F(SettleTest, ACallThatRanOutOfTimeIsUnknown) {
  request.call_timeout = 5s;
  ExpectAcquired();
  EXPECT_CALL(*connection,
              MarkUnresolved(Field(&MarkUnresolvedRequest::cause, UnresolvedCause::kTimeout), _))
      .WillOnce(Return(Marked()));
  const RunResult result = Run([&](Attempt& attempt) {
    Advance(5s);
    EXPECT_TRUE(attempt.should_stop());
    return EffectResult::Failed(absl::DeadlineExceededError("5 s"));
  });
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
}

TEST_F(SettleTest, ACallThatWasCancelledBeforeItsDispatchFreesTheKey) {
  request.dispatch_later = true;
  ExpectAcquired();
  EXPECT_CALL(*connection, Release(WithToken(), _))
      .WillOnce(Return(ReleaseResponse{OperationState::kFreed}));
  const RunResult result = Run([&](Attempt& attempt) {
    cancellation.Cancel();
    const absl::Status dispatched = attempt.Dispatch();
    EXPECT_FALSE(dispatched.ok());
    return EffectResult::Failed(dispatched);
  });
  EXPECT_EQ(result.stop, StopReason::kCancelled);
}

TEST_F(SettleTest, ACallThatWasNotDispatchedFreesTheKey) {
  request.dispatch_later = true;
  ExpectAcquired();
  EXPECT_CALL(*connection, Renew).WillOnce(Return(Refuse(ErrorReason::kLeaseLapsed)));
  EXPECT_CALL(*connection, Release(WithToken(), _))
      .WillOnce(Return(ReleaseResponse{OperationState::kFreed}));
  const RunResult result =
      Run([](Attempt& attempt) { return EffectResult::Failed(attempt.Dispatch()); });
  EXPECT_EQ(result.stop, StopReason::kNothingHappened);
}

TEST_F(SettleTest, AfterTheDispatchAFailureIsUnknown) {
  request.dispatch_later = true;
  ExpectAcquired();
  EXPECT_CALL(*connection, Renew).WillOnce(Return(RenewResponse{LeaseOf(30s)}));
  EXPECT_CALL(*connection, MarkUnresolved).WillOnce(Return(Marked()));
  const RunResult result = Run([](Attempt& attempt) {
    EXPECT_TRUE(attempt.Dispatch().ok());
    return EffectResult::Failed(Lost());
  });
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
}

TEST_F(SettleTest, AnOwnerThatLostItsLeaseReportsAllTheSame) {
  ExpectAcquired();
  EXPECT_CALL(*connection, AsyncRenew)
      .WillOnce([](RenewRequest, CallOptions, Connection::RenewDone done) {
        std::move(done)(Refuse(ErrorReason::kLeaseLapsed));
      });
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Done()));
  bool told = false;
  const RunResult result = Run([&](Attempt& attempt) {
    attempt.OnStop([&] { told = true; });
    Advance(13500ms);
    return Answer("charged");
  });
  EXPECT_TRUE(told);
  EXPECT_TRUE(result.has_answer());
}

TEST_F(SettleTest, AnOwnerThatWasSupersededGetsItsAnswerAndTheFlag) {
  ExpectAcquired();
  EXPECT_CALL(*connection, Complete).WillOnce(Return(Refuse(ErrorReason::kStaleFencingToken)));
  const RunResult result = Run([](Attempt&) { return Answer("charged"); });
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(result.response, Body("charged"));
  EXPECT_TRUE(result.record_open);
  EXPECT_EQ(result.refusal->reason, ErrorReason::kStaleFencingToken);
}

TEST_F(SettleTest, OneCancellationEndsAllRunsOfAProcess) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_CALL(*connection, Reserve).WillOnce(Return(Acquired())).RetiresOnSaturation();
  }
  EXPECT_CALL(*connection, MarkUnresolved).Times(3).WillRepeatedly(Return(Marked()));
  int stopped = 0;
  const auto cut_off = [&](Attempt& attempt) {
    attempt.OnStop([&] { ++stopped; });
    return EffectResult::Failed(absl::CancelledError("shutting down"));
  };
  const auto nested = [&](Attempt& attempt) {
    attempt.OnStop([&] { ++stopped; });
    EXPECT_EQ(Run(cut_off).stop, StopReason::kUnresolved);
    cancellation.Cancel();
    return EffectResult::Failed(absl::CancelledError("shutting down"));
  };
  const RunResult result = Run([&](Attempt& attempt) {
    attempt.OnStop([&] { ++stopped; });
    EXPECT_EQ(Run(nested).stop, StopReason::kUnresolved);
    return EffectResult::Failed(absl::CancelledError("shutting down"));
  });
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
  EXPECT_EQ(stopped, 2) << "the innermost had returned before";
}

// --- Telling the service -------------------------------------------------------------------------

TEST_F(SettleTest, IsToldUntilItIsConfirmed) {
  ExpectAcquired();
  EXPECT_CALL(*connection, Complete)
      .WillOnce(Return(Lost()))
      .WillOnce(Return(absl::DeadlineExceededError("10 s")))
      .WillOnce(Return(absl::InternalError("a proxy")))
      .WillOnce(Return(Refuse(ErrorReason::kStoreUnavailable, 3s)))
      .WillOnce(Return(Done()));
  const RunResult result = Run([](Attempt&) { return Answer("charged"); });
  EXPECT_FALSE(result.record_open);
  EXPECT_THAT(environment->sleeps(), ElementsAre(50ms, 100ms, 200ms, 3s));
}

TEST_F(SettleTest, KeepsTheLeaseWhileItTells) {
  ExpectAcquired();
  EXPECT_CALL(*connection, Complete)
      .WillOnce(Return(Refuse(ErrorReason::kOverloaded, 14s)))
      .WillOnce(Return(Done()));
  EXPECT_CALL(*connection, AsyncRenew)
      .WillOnce([](RenewRequest, CallOptions, Connection::RenewDone done) {
        std::move(done)(RenewResponse{LeaseOf(30s)});
      });
  environment->OnSleep([this](Duration) { timer.RunDue(); });
  EXPECT_TRUE(Run([](Attempt&) { return Answer("charged"); }).has_answer());
}

TEST_F(SettleTest, TheRealAnswerComesWithTheFlagThatItIsNotRecorded) {
  ExpectAcquired();
  EXPECT_CALL(*connection, Complete).Times(::testing::AtLeast(20)).WillRepeatedly(Return(Lost()));
  const RunResult result = Run([](Attempt&) { return Answer("charged"); });
  EXPECT_TRUE(result.has_answer());
  EXPECT_EQ(result.response, Body("charged"));
  EXPECT_EQ(result.verdict, Verdict::kSucceeded);
  EXPECT_TRUE(result.record_open);
  EXPECT_EQ(result.refusal, std::nullopt);
  EXPECT_THAT(result.detail, HasSubstr("connection reset"));
  Duration slept{0};
  for (const Duration span : environment->sleeps()) slept += span;
  EXPECT_GT(slept, 110s) << "it tried for two minutes";
  EXPECT_LT(slept, 120s);
}

TEST_F(SettleTest, AnUnknownOutcomeThatIsNotRecordedIsSaid) {
  options.settle_retry = {.max_attempts = 2};
  ExpectAcquired();
  EXPECT_CALL(*connection, MarkUnresolved).Times(2).WillRepeatedly(Return(Lost()));
  const RunResult result = Run([](Attempt&) { return EffectResult::Failed(Lost()); });
  EXPECT_EQ(result.stop, StopReason::kUnresolved);
  EXPECT_EQ(result.next_step, NextStep::kReconcileFirst);
  EXPECT_TRUE(result.record_open);
}

TEST_F(SettleTest, AReleaseThatIsNotRecordedIsSaid) {
  options.settle_retry = {.max_attempts = 2};
  ExpectAcquired();
  EXPECT_CALL(*connection, Release).Times(2).WillRepeatedly(Return(Lost()));
  const RunResult result = Run([](Attempt&) { return Answer("later", 429); });
  EXPECT_EQ(result.stop, StopReason::kNothingHappened);
  EXPECT_TRUE(result.record_open);
}

}  // namespace
}  // namespace idempotency::testing
