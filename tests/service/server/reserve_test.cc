// Reserve and the owner's verbs, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/service/server/commands.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReserveTest, AcquiresCompletesAndReplays) {
  ServiceFixture service;
  const auto acquired = service.Call(&Api::Reserve, Reserve("order-1"));
  ASSERT_TRUE(acquired.status.ok()) << acquired.status.error_message();
  EXPECT_EQ(acquired.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(acquired.response.next_step(), v1::NEXT_STEP_PROCEED);
  EXPECT_GE(acquired.response.lease().fencing_token(), 1u);
  EXPECT_EQ(acquired.response.lease().remaining().seconds(), 30);
  EXPECT_EQ(acquired.reason, "");

  const uint64_t token = acquired.response.lease().fencing_token();
  const auto completed = service.Call(&Api::Complete, Complete("order-1", token));
  ASSERT_TRUE(completed.status.ok()) << completed.status.error_message();
  EXPECT_FALSE(completed.response.already_complete());
  EXPECT_EQ(completed.response.operation().state(), v1::OPERATION_STATE_COMPLETE);
  EXPECT_FALSE(completed.response.operation().has_response());

  const auto replayed = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(replayed.response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(replayed.response.next_step(), v1::NEXT_STEP_USE_RESPONSE);
  EXPECT_EQ(replayed.response.operation().response().body(), "done");
  EXPECT_EQ(replayed.response.operation().response().http_status(), 200);
}

TEST(ReserveTest, LostReplyOfTheSameAttemptGetsTheSameLease) {
  ServiceFixture service;
  const auto first = service.Call(&Api::Reserve, Reserve("order-1"));
  service.Advance(seconds(10));
  const auto again = service.Call(&Api::Reserve, Reserve("order-1"));
  EXPECT_EQ(again.response.outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD);
  EXPECT_EQ(again.response.next_step(), v1::NEXT_STEP_PROCEED_UNLESS_STARTED);
  EXPECT_EQ(again.response.lease().fencing_token(), first.response.lease().fencing_token());
  EXPECT_EQ(again.response.lease().expire_time().seconds(),
            first.response.lease().expire_time().seconds());
  EXPECT_EQ(again.response.lease().remaining().seconds(), 20);
}

TEST(ReserveTest, ParallelReservesOfOneKeyHaveExactlyOneOwner) {
  ServiceFixture service;
  constexpr int kCallers = 64;
  std::atomic<int> acquired{0};
  std::atomic<int> in_progress{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      const auto result = service.Call(&Api::Reserve, Reserve("order-1", std::to_string(i)));
      if (result.response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED) ++acquired;
      if (result.response.outcome() == v1::RESERVE_OUTCOME_IN_PROGRESS) ++in_progress;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(acquired, 1);
  EXPECT_EQ(in_progress, kCallers - 1);
}

TEST(ReserveTest, TellsADuplicateWhoIsActive) {
  ServiceFixture service;
  v1::ReserveRequest request = Reserve("order-1");
  request.mutable_owner()->set_operation_ref("run-7");
  service.Call(&Api::Reserve, request);
  const auto duplicate = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(duplicate.response.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  EXPECT_EQ(duplicate.response.next_step(), v1::NEXT_STEP_RESERVE_AGAIN);
  EXPECT_EQ(duplicate.response.operation().owner().operation_ref(), "run-7");
  EXPECT_EQ(duplicate.response.retry_after().seconds(), 1);
  EXPECT_FALSE(duplicate.response.has_lease());
}

TEST(ReserveTest, RefusesAnotherRequestUnderTheKey) {
  ServiceFixture service;
  const auto first = service.Call(&Api::Reserve, Reserve("order-1"));
  v1::ReserveRequest other = Reserve("order-1", "2");
  *other.mutable_fingerprint() = Print('e');
  auto mismatch = service.Call(&Api::Reserve, other);
  EXPECT_EQ(mismatch.response.outcome(), v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH);
  EXPECT_EQ(mismatch.response.next_step(), v1::NEXT_STEP_SETTLE_OTHER_FIRST);
  service.Call(&Api::Complete, Complete("order-1", first.response.lease().fencing_token()));
  mismatch = service.Call(&Api::Reserve, other);
  EXPECT_EQ(mismatch.response.next_step(), v1::NEXT_STEP_USE_OWN_KEY);
  EXPECT_FALSE(mismatch.response.operation().has_response());
  EXPECT_EQ(mismatch.response.operation().fingerprint().digest(), "");
}

TEST(ReserveTest, AnOwnerThatDiesLeavesAnHonestUnknown) {
  ServiceFixture service;
  const auto first = service.Call(&Api::Reserve, Reserve("order-1"));
  service.Advance(seconds(30));
  const auto late = service.Call(&Api::Reserve, Reserve("order-1"));
  EXPECT_EQ(late.response.outcome(), v1::RESERVE_OUTCOME_UNRESOLVED);
  EXPECT_EQ(late.response.next_step(), v1::NEXT_STEP_RECONCILE_FIRST);
  EXPECT_EQ(late.response.operation().unresolved_cause(), v1::UNRESOLVED_CAUSE_LEASE_LAPSED);
  // Its own dead lease, so that it can still report.
  EXPECT_EQ(late.response.lease().fencing_token(), first.response.lease().fencing_token());
  EXPECT_EQ(late.response.lease().remaining().seconds(), 0);
  const auto completed = service.Call(
      &Api::Complete, Complete("order-1", late.response.lease().fencing_token(), "late truth"));
  EXPECT_TRUE(completed.status.ok()) << completed.status.error_message();
}

TEST(ReserveTest, ATooOldOperationIsNotAGuess) {
  ServiceFixture service;
  v1::ReserveRequest request = Reserve("order-1");
  request.mutable_operation_age()->set_seconds(32 * 24 * 3600);
  auto result = service.Call(&Api::Reserve, request);
  EXPECT_EQ(result.response.outcome(), v1::RESERVE_OUTCOME_TOO_OLD);
  EXPECT_FALSE(result.response.has_operation());
  request.set_start_over(true);
  result = service.Call(&Api::Reserve, request);
  EXPECT_EQ(result.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
}

TEST(ReserveTest, RenewExtendsAndRecordsProgress) {
  ServiceFixture service;
  v1::ReserveRequest reserve = Reserve("order-1");
  reserve.set_dispatch_later(true);
  const auto acquired = service.Call(&Api::Reserve, reserve);
  EXPECT_FALSE(acquired.response.operation().dispatched());
  const uint64_t token = acquired.response.lease().fencing_token();
  service.Advance(seconds(10));
  v1::RenewRequest renew = Renew("order-1", token);
  renew.set_progress("half");
  renew.set_dispatched(true);
  renew.mutable_owner()->set_operation_ref("run-1");
  const auto renewed = service.Call(&Api::Renew, renew);
  ASSERT_TRUE(renewed.status.ok()) << renewed.status.error_message();
  EXPECT_EQ(renewed.response.lease().remaining().seconds(), 30);
  EXPECT_EQ(renewed.response.lease().fencing_token(), token);
  const auto got = service.Call(&Api::GetOperation, Get("order-1"));
  EXPECT_TRUE(got.response.operation().dispatched());
  EXPECT_EQ(got.response.operation().owner().operation_ref(), "run-1");
}

TEST(ReserveTest, ReleaseGivesTheKeyBack) {
  ServiceFixture service;
  const auto first = service.Call(&Api::Reserve, Reserve("order-1"));
  const uint64_t token = first.response.lease().fencing_token();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto released = service.Call(&Api::Release, Release("order-1", token));
    ASSERT_TRUE(released.status.ok()) << released.status.error_message();
    EXPECT_EQ(released.response.state(), v1::OPERATION_STATE_FREED);
  }
  const auto second = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(second.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_GT(second.response.lease().fencing_token(), token);
}

TEST(ReserveTest, APolicyGrantsAnotherAttemptAfterItsBackoff) {
  ServiceFixture service({.config = R"(
namespaces:
  - name: payments
    unknown_outcome: RETRY_SAME_KEY
    protection_window: 1h
    max_attempts: 3
    initial_backoff: 2s
)"});
  const auto first = service.Call(&Api::Reserve, Reserve("order-1"));
  const uint64_t token = first.response.lease().fencing_token();
  EXPECT_TRUE(first.response.operation().has_protection_expire_time());
  const auto marked = service.Call(&Api::MarkUnresolved, Mark("order-1", token));
  ASSERT_TRUE(marked.status.ok()) << marked.status.error_message();
  EXPECT_EQ(marked.response.next_step(), v1::NEXT_STEP_RESERVE_AGAIN);
  EXPECT_EQ(marked.response.retry_after().seconds(), 2);

  const auto early = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(early.response.outcome(), v1::RESERVE_OUTCOME_UNRESOLVED);
  EXPECT_EQ(early.response.next_step(), v1::NEXT_STEP_RESERVE_AGAIN);
  EXPECT_EQ(early.response.operation().next_attempt_time().seconds() -
                early.response.server_time().seconds(),
            2);
  service.Advance(seconds(2));
  const auto second = service.Call(&Api::Reserve, Reserve("order-1", "2"));
  EXPECT_EQ(second.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(second.response.lease().attempt(), 2u);
  EXPECT_GT(second.response.lease().fencing_token(), token);
}

TEST(ReserveTest, CountsWhatItAnswers) {
  ServiceFixture service;
  service.Call(&Api::Reserve, Reserve("order-1"));
  service.Call(&Api::Reserve, Reserve("order-1", "2"));
  const auto counted = service.metrics().Read();
  EXPECT_EQ(counted.reserved[v1::RESERVE_OUTCOME_ACQUIRED], 1u);
  EXPECT_EQ(counted.reserved[v1::RESERVE_OUTCOME_IN_PROGRESS], 1u);
  EXPECT_EQ(counted.committed_writes, 1u);
}

}  // namespace
}  // namespace idempotency::testing
