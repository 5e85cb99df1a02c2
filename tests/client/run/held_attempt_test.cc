// A lease by the owner's clock: each deadline a millisecond before, on, and after it.
#include "client/src/held_attempt.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idempotency/keys.h"
#include "tests/client/run/run_fixture.h"

namespace idempotency::internal {
namespace {

using namespace testing;  // of the run fixture
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::InSequence;
using ::testing::Invoke;
using ::testing::Return;
using ::testing::StrictMock;
using ::testing::WithArg;

TEST(LeaseMarginTest, IsATenthAtLeastASecondAtMostHalf) {
  EXPECT_EQ(LeaseMargin(0ms), 0ms);
  EXPECT_EQ(LeaseMargin(1s), 500ms);
  EXPECT_EQ(LeaseMargin(2s), 1s);
  EXPECT_EQ(LeaseMargin(10s), 1s);
  EXPECT_EQ(LeaseMargin(30s), 3s);
  EXPECT_EQ(LeaseMargin(1h), 6min);
}

class HeldAttemptTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeEnvironment> environment_ = std::make_shared<FakeEnvironment>();
  std::shared_ptr<StrictMock<MockConnection>> connection_ =
      std::make_shared<StrictMock<MockConnection>>();
  RenewalTimer timer_{environment_, RenewalTimer::Drive::kManual};
  std::stop_source caller_;
  HeldAttempt::Setup setup_{.connection = connection_,
                            .environment = environment_,
                            .timer = &timer_,
                            .id = {"payments", "acct", "order-1"},
                            .lease = LeaseOf(30s),
                            .sent_at = environment_->MonotonicNow(),
                            .cancelled = caller_.get_token()};
  // Renewals in the background that have not been answered.
  std::vector<Connection::RenewDone> renewals_;
  std::vector<Duration> timeouts_;

  std::shared_ptr<HeldAttempt> Make() { return std::make_shared<HeldAttempt>(setup_); }
  std::shared_ptr<HeldAttempt> Started() {
    auto held = Make();
    held->Start();
    return held;
  }
  void Advance(Duration span) {
    environment_->Advance(span);
    timer_.RunDue();
  }
  void ExpectRenewals(int times) {
    EXPECT_CALL(*connection_, AsyncRenew(Field(&RenewRequest::fencing_token, kToken), _, _))
        .Times(times)
        .WillRepeatedly([this](RenewRequest, CallOptions options, Connection::RenewDone done) {
          timeouts_.push_back(options.timeout);
          renewals_.push_back(std::move(done));
        });
  }
  void AnswerRenewal(absl::StatusOr<RenewResponse> response) {
    ASSERT_FALSE(renewals_.empty()) << "there was no renewal";
    Connection::RenewDone done = std::move(renewals_.back());
    renewals_.pop_back();
    std::move(done)(std::move(response));
  }
};

TEST_F(HeldAttemptTest, CountsDownFromBeforeTheRequestWasSent) {
  environment_->Advance(2s);  // the request took that long
  const auto held = Make();
  EXPECT_EQ(held->remaining(), 25s) << "30 less the margin of 3, less 2";
  EXPECT_FALSE(held->should_stop());
  environment_->Advance(24999ms);
  EXPECT_EQ(held->remaining(), 1ms);
  EXPECT_FALSE(held->should_stop());
  environment_->Advance(1ms);
  EXPECT_EQ(held->remaining(), 0ms);
  EXPECT_TRUE(held->should_stop());
  EXPECT_TRUE(held->stop_token().stop_requested());
  environment_->Advance(1ms);
  EXPECT_EQ(held->remaining(), 0ms);
}

TEST_F(HeldAttemptTest, TellsWhatTheLeaseSays) {
  setup_.lease.attempt = 3;
  setup_.lease.progress = "page 7";
  const auto held = Make();
  EXPECT_EQ(held->number(), 3u);
  EXPECT_EQ(held->fencing_token(), kToken);
  EXPECT_EQ(held->progress(), "page 7");
  EXPECT_EQ(held->id(), setup_.id);
  EXPECT_EQ(held->provider_key(), ProviderKey(setup_.id));
}

TEST_F(HeldAttemptTest, RenewsWhenHalfHasGone) {
  ExpectRenewals(2);
  const auto held = Started();
  Advance(13499ms);
  EXPECT_EQ(renewals_.size(), 0u);
  Advance(1ms);
  ASSERT_EQ(renewals_.size(), 1u) << "half of 27 s";
  Advance(1s);  // the answer takes a second, which is not counted as leased
  AnswerRenewal(RenewResponse{LeaseOf(30s)});
  EXPECT_EQ(held->remaining(), 26s);
  Advance(12499ms);
  EXPECT_EQ(renewals_.size(), 0u);
  Advance(1ms);
  EXPECT_EQ(renewals_.size(), 1u);
  EXPECT_THAT(timeouts_, ElementsAre(10s, 10s));
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, AShortLeaseIsRenewedInTime) {
  ExpectRenewals(1);
  setup_.lease.remaining = 2s;
  const auto held = Started();
  Advance(499ms);
  EXPECT_EQ(renewals_.size(), 0u);
  Advance(1ms);
  EXPECT_EQ(renewals_.size(), 1u);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, ARenewalThatSomebodyWaitedForPutsTheNextOneOff) {
  ExpectRenewals(1);
  EXPECT_CALL(*connection_, Renew).WillOnce(Return(RenewResponse{LeaseOf(30s)}));
  const auto held = Started();
  Advance(10s);
  ASSERT_TRUE(held->SaveProgress("half way").ok());
  Advance(13499ms);
  EXPECT_EQ(renewals_.size(), 0u);
  Advance(1ms);
  EXPECT_EQ(renewals_.size(), 1u);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, TriesAgainWhileTheLeaseLastsAndThenStops) {
  ExpectRenewals(4);
  setup_.backoff = {.initial = 4s, .maximum = 4s};
  const auto held = Started();
  bool told = false;
  held->OnStop([&] { told = true; });
  Advance(13500ms);
  AnswerRenewal(Lost());
  Advance(4s);
  AnswerRenewal(Lost());
  Advance(4s);
  AnswerRenewal(Lost());
  Advance(4s);  // 25.5 s of 27
  EXPECT_EQ(timeouts_.back(), 1500ms) << "no longer than the lease";
  Advance(1499ms);
  EXPECT_FALSE(told);
  Advance(1ms);
  EXPECT_TRUE(told) << "not renewed in time, though the last answer is still out";
  EXPECT_TRUE(held->should_stop());
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, ALateRenewalDoesNotTakeBackWhatWasSaid) {
  ExpectRenewals(1);
  const auto held = Started();
  Advance(27s);
  ASSERT_EQ(renewals_.size(), 1u);
  EXPECT_TRUE(held->should_stop());
  AnswerRenewal(RenewResponse{LeaseOf(30s)});
  EXPECT_TRUE(held->should_stop());
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, WaitsAsLongAsTheServiceAsks) {
  ExpectRenewals(2);
  setup_.backoff = {.initial = 50ms};
  const auto held = Started();
  Advance(13500ms);
  AnswerRenewal(Refuse(ErrorReason::kOverloaded, 2s));
  Advance(1999ms);
  EXPECT_EQ(renewals_.size(), 0u);
  Advance(1ms);
  EXPECT_EQ(renewals_.size(), 1u);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, ALostLeaseIsToldAtOnceAndNotRenewedAgain) {
  ExpectRenewals(1);
  const auto held = Started();
  bool told = false;
  held->OnStop([&] { told = true; });
  Advance(13500ms);
  AnswerRenewal(Refuse(ErrorReason::kStaleFencingToken));
  EXPECT_TRUE(told);
  EXPECT_TRUE(held->should_stop());
  Advance(1h);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, AtTheEndOfTheHoldRenewalsKeepTheirDistance) {
  // The service grants nothing beyond a fixed time, 2 s ahead.
  int renewals = 0;
  EXPECT_CALL(*connection_, AsyncRenew)
      .WillRepeatedly([&](RenewRequest, CallOptions, Connection::RenewDone done) {
        ++renewals;
        const auto gone = environment_->MonotonicNow() - setup_.sent_at;
        std::move(done)(
            RenewResponse{LeaseOf(std::max(Duration(0), std::chrono::floor<Duration>(2s - gone)))});
      });
  setup_.lease.remaining = 2s;
  const auto held = Started();
  for (int i = 0; i < 2000; ++i) Advance(1ms);
  EXPECT_TRUE(held->should_stop());
  EXPECT_LE(renewals, 8);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, WithoutRenewalTheEndOfTheLeaseIsTold) {
  setup_.renew = false;
  const auto held = Started();
  bool told = false;
  const std::stop_callback on_stop(held->stop_token(), [&] { told = true; });
  Advance(26999ms);
  EXPECT_FALSE(told);
  Advance(1ms);
  EXPECT_TRUE(told);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, CallTimeoutIsToldAndTheLeaseGoesOn) {
  ExpectRenewals(1);
  setup_.call_timeout = 5s;
  const auto held = Started();
  bool told = false;
  held->OnStop([&] { told = true; });
  Advance(4999ms);
  EXPECT_FALSE(told);
  EXPECT_FALSE(held->should_stop());
  Advance(1ms);
  EXPECT_TRUE(told);
  EXPECT_TRUE(held->should_stop());
  EXPECT_GT(held->remaining(), 20s);
  Advance(10s);
  EXPECT_EQ(renewals_.size(), 1u) << "its result has still to be reported";
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, TheCallersCancellationIsToldOnItsThread) {
  const auto held = Started();
  std::vector<std::string> told;
  held->OnStop([&] { told.push_back("first"); });
  const std::stop_callback on_stop(held->stop_token(), [&] { told.push_back("second"); });
  EXPECT_FALSE(held->should_stop());
  caller_.request_stop();
  EXPECT_TRUE(held->should_stop());
  held->OnStop([&] { told.push_back("late"); });
  EXPECT_THAT(told, ::testing::UnorderedElementsAre("first", "second", "late"));
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, CallbacksMayAskTheAttempt) {
  const auto held = Started();
  bool stopped = false;
  held->OnStop([&] {
    stopped = held->should_stop();
    (void)held->remaining();
    held->OnStop([] {});
  });
  caller_.request_stop();
  EXPECT_TRUE(stopped);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, NothingOfFnsIsCalledAfterItReturned) {
  const auto held = Started();
  held->OnStop([] { FAIL() << "called after fn returned"; });
  held->LetGoOfFn();
  caller_.request_stop();
  Advance(1ms);
  held->StopRenewing();
}

TEST_F(HeldAttemptTest, AnAnswerMayComeWhenAllIsOver) {
  ExpectRenewals(2);
  auto first = Started();
  auto second = Started();
  Advance(13500ms);
  ASSERT_EQ(renewals_.size(), 2u);
  first->StopRenewing();
  AnswerRenewal(RenewResponse{LeaseOf(30s)});
  AnswerRenewal(RenewResponse{LeaseOf(30s)});
  second->StopRenewing();
  first.reset();
  second.reset();
  Advance(1h);
}

TEST_F(HeldAttemptTest, AnAnswerMayComeWhenTheAttemptIsGone) {
  ExpectRenewals(1);
  auto held = Started();
  Advance(13500ms);
  held->StopRenewing();
  held.reset();
  AnswerRenewal(RenewResponse{LeaseOf(30s)});
}

// --- What fn asks for ----------------------------------------------------------------------------

TEST_F(HeldAttemptTest, DispatchIsToldToTheServiceOnce) {
  setup_.dispatch_later = true;
  const auto held = Make();
  EXPECT_FALSE(held->may_have_started());
  EXPECT_CALL(*connection_, Renew(AllOf(Field(&RenewRequest::dispatched, true),
                                        Field(&RenewRequest::fencing_token, kToken)),
                                  _))
      .WillOnce(Return(Lost()))
      .WillOnce(Return(RenewResponse{LeaseOf(30s)}));
  EXPECT_TRUE(held->Dispatch().ok());
  EXPECT_TRUE(held->may_have_started());
  EXPECT_TRUE(held->Dispatch().ok());
}

TEST_F(HeldAttemptTest, WithoutDispatchLaterDispatchIsFree) {
  const auto held = Make();
  EXPECT_TRUE(held->may_have_started());
  EXPECT_TRUE(held->Dispatch().ok());
}

TEST_F(HeldAttemptTest, DispatchFailsWhereTheLeaseIsLost) {
  setup_.dispatch_later = true;
  const auto held = Make();
  EXPECT_CALL(*connection_, Renew).WillOnce(Return(Refuse(ErrorReason::kLeaseLapsed)));
  EXPECT_FALSE(held->Dispatch().ok());
  EXPECT_FALSE(held->may_have_started()) << "fn was told not to start";
  EXPECT_TRUE(held->should_stop());
}

TEST_F(HeldAttemptTest, DispatchIsTriedNoLongerThanTheLeaseLasts) {
  setup_.dispatch_later = true;
  setup_.backoff = {.initial = 10s, .maximum = 10s};
  const auto held = Make();
  EXPECT_CALL(*connection_, Renew).Times(3).WillRepeatedly(Return(Lost()));
  EXPECT_FALSE(held->Dispatch().ok());
  EXPECT_THAT(environment_->sleeps(), ElementsAre(10s, 10s)) << "27 s are left";
}

TEST_F(HeldAttemptTest, ACancelledCallIsNotDispatched) {
  setup_.dispatch_later = true;
  const auto held = Make();
  EXPECT_CALL(*connection_, Renew).WillOnce([&](const RenewRequest&, const CallOptions&) {
    caller_.request_stop();  // while the service is being told
    return RenewResponse{LeaseOf(30s)};
  });
  EXPECT_FALSE(held->Dispatch().ok());
  EXPECT_FALSE(held->may_have_started());
  EXPECT_FALSE(held->Dispatch().ok()) << "and is not told to the service again";
}

TEST_F(HeldAttemptTest, ProgressThatIsRefusedLosesNothing) {
  const auto held = Make();
  EXPECT_CALL(*connection_, Renew(Field(&RenewRequest::progress, "too much"), _))
      .WillOnce(Return(Refuse(ErrorReason::kInvalidField)));
  EXPECT_FALSE(held->SaveProgress("too much").ok());
  EXPECT_FALSE(held->should_stop());
}

}  // namespace
}  // namespace idempotency::internal
