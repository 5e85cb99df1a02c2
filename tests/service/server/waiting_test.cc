// Waiting on the server: woken, timed out, cancelled, over the bound.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/service/server/commands.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A Reserve or Get in flight.
template <typename Request, typename Response>
class Waiting {
 public:
  Waiting(ServiceFixture* service, Request request, milliseconds timeout = milliseconds(0))
      : request_(std::move(request)) {
    if (timeout.count() > 0) {
      context_.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                         gpr_time_from_millis(timeout.count(), GPR_TIMESPAN)));
    }
    Start(service->api());
  }
  ~Waiting() { Result(); }

  void Cancel() { context_.TryCancel(); }
  CallResult<Response> Result() {
    done_.WaitForNotification();
    return ReadResult(status_, context_, response_);
  }

 private:
  void Start(Api* api) {
    const auto on_done = [this](grpc::Status status) {
      status_ = std::move(status);
      done_.Notify();
    };
    if constexpr (std::is_same_v<Request, v1::ReserveRequest>) {
      api->async()->Reserve(&context_, &request_, &response_, on_done);
    } else {
      api->async()->GetOperation(&context_, &request_, &response_, on_done);
    }
  }

  grpc::ClientContext context_;
  const Request request_;
  Response response_;
  grpc::Status status_;
  absl::Notification done_;
};
using WaitingForReserve = Waiting<v1::ReserveRequest, v1::ReserveResponse>;
using WaitingForGet = Waiting<v1::GetOperationRequest, v1::GetOperationResponse>;

void AwaitWaiters(ServiceFixture* service, size_t count) {
  AwaitTrue([&] { return service->server()->store()->waiters() == count; });
}

uint64_t Acquire(ServiceFixture* service, const std::string& key) {
  const auto acquired = service->Call(&Api::Reserve, v1::ReserveRequest(Reserve(key)));
  EXPECT_EQ(acquired.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  return acquired.response.lease().fencing_token();
}

TEST(WaitingTest, IsEndedByACompletion) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "order-1");
  WaitingForReserve reserve(&service, WaitingReserve("order-1", "2", seconds(20)));
  v1::GetOperationRequest get = Get("order-1");
  get.mutable_wait_duration()->set_seconds(20);
  WaitingForGet got(&service, get);
  AwaitWaiters(&service, 2);
  service.Call(&Api::Complete, Complete("order-1", token, "the answer"));
  EXPECT_EQ(reserve.Result().response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(reserve.Result().response.operation().response().body(), "the answer");
  EXPECT_EQ(got.Result().response.operation().response().body(), "the answer");
  EXPECT_EQ(service.server()->store()->waiters(), 0u);
}

TEST(WaitingTest, IsEndedByAReleaseFirstComeFirstServed) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "order-1");
  WaitingForReserve first(&service, WaitingReserve("order-1", "2", seconds(20)));
  AwaitWaiters(&service, 1);
  WaitingForReserve second(&service, WaitingReserve("order-1", "3", seconds(20)));
  AwaitWaiters(&service, 2);
  service.Call(&Api::Release, Release("order-1", token));
  EXPECT_EQ(first.Result().response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  // The other waits on, now for the new owner.
  const uint64_t next = first.Result().response.lease().fencing_token();
  service.Call(&Api::Complete, Complete("order-1", next));
  EXPECT_EQ(second.Result().response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
}

TEST(WaitingTest, IsEndedByALapse) {
  ServiceFixture service;
  Acquire(&service, "order-1");
  WaitingForReserve reserve(&service, WaitingReserve("order-1", "2", seconds(60)));
  AwaitWaiters(&service, 1);
  service.Advance(seconds(30));
  EXPECT_EQ(reserve.Result().response.outcome(), v1::RESERVE_OUTCOME_UNRESOLVED);
}

TEST(WaitingTest, TimesOutWithWhatHoldsThen) {
  ServiceFixture service;
  Acquire(&service, "order-1");
  WaitingForReserve reserve(&service, WaitingReserve("order-1", "2", seconds(5)));
  AwaitWaiters(&service, 1);
  service.Advance(milliseconds(4999));
  AwaitWaiters(&service, 1);
  service.Advance(milliseconds(1));
  const auto result = reserve.Result();
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.response.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  EXPECT_EQ(result.response.next_step(), v1::NEXT_STEP_RESERVE_AGAIN);
}

TEST(WaitingTest, IsCutToThePolicy) {
  ServiceFixture service({.config = "namespaces: [{name: payments, max_wait_duration: 3s}]"});
  Acquire(&service, "order-1");
  WaitingForReserve reserve(&service, WaitingReserve("order-1", "2", seconds(3600)));
  AwaitWaiters(&service, 1);
  service.Advance(seconds(3));
  EXPECT_EQ(reserve.Result().response.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
}

TEST(WaitingTest, LeavesTheAnswerTimeToArrive) {
  ServiceFixture service;
  Acquire(&service, "order-1");
  // The lease has longer to live, and so have the policy and the request; the call has not.
  WaitingForReserve reserve(&service, WaitingReserve("order-1", "2", seconds(60)), seconds(20));
  AwaitWaiters(&service, 1);
  service.Advance(milliseconds(19'900));
  const auto result = reserve.Result();
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.response.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
}

TEST(WaitingTest, EndsWhenTheCallerGoes) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "order-1");
  WaitingForReserve gone(&service, WaitingReserve("order-1", "2", seconds(20)));
  AwaitWaiters(&service, 1);
  gone.Cancel();
  EXPECT_EQ(gone.Result().status.error_code(), grpc::StatusCode::CANCELLED);
  AwaitWaiters(&service, 0);
  // It acquires nothing behind its caller's back.
  service.Call(&Api::Release, Release("order-1", token));
  const auto next = service.Call(&Api::Reserve, Reserve("order-1", "3"));
  EXPECT_EQ(next.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(next.response.lease().attempt(), 1u);
}

TEST(WaitingTest, IsBoundedPerKeyAndInAll) {
  ServiceFixture service({.config = R"(
limits: {max_waiters: 3, max_waiters_per_key: 2}
unlisted_namespaces: ALLOW
)"});
  const uint64_t token = Acquire(&service, "order-1");
  const uint64_t other_token = Acquire(&service, "order-2");
  WaitingForReserve first(&service, WaitingReserve("order-1", "2", seconds(20)));
  WaitingForReserve second(&service, WaitingReserve("order-1", "3", seconds(20)));
  AwaitWaiters(&service, 2);
  // Over the bound of the key: an answer at once.
  const auto third = service.Call(&Api::Reserve, WaitingReserve("order-1", "4", seconds(20)));
  EXPECT_EQ(third.response.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  WaitingForReserve other(&service, WaitingReserve("order-2", "2", seconds(20)));
  AwaitWaiters(&service, 3);
  const auto fourth = service.Call(&Api::Reserve, WaitingReserve("order-2", "3", seconds(20)));
  EXPECT_EQ(fourth.response.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  service.Call(&Api::Complete, Complete("order-1", token));
  service.Call(&Api::Complete, Complete("order-2", other_token));
}

TEST(WaitingTest, MoreThanAThousandWaitersOnAConnectionDoNotKeepOutTheCompleteTheyWaitFor) {
  constexpr size_t kWaiters = 1100;
  ServiceFixture service({.config = "unlisted_namespaces: ALLOW\nlimits: {max_waiters: 2000, "
                                    "max_waiters_per_key: 2000}"});
  const uint64_t token = service.Call(&Api::Reserve, Reserve("k")).response.lease().fencing_token();
  std::vector<std::unique_ptr<WaitingForReserve>> waiting;
  for (size_t i = 0; i < kWaiters; ++i) {
    waiting.push_back(std::make_unique<WaitingForReserve>(
        &service, WaitingReserve("k", std::to_string(i + 2), seconds(20))));
  }
  AwaitWaiters(&service, kWaiters);
  service.Call(&Api::Complete, Complete("k", token));
  for (const auto& each : waiting) {
    EXPECT_EQ(each->Result().response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  }
}

TEST(WaitingTest, HoldsNoThread) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "order-1");
  constexpr size_t kWaiters = 200;
  std::vector<std::unique_ptr<WaitingForReserve>> waiting;
  for (size_t i = 0; i < kWaiters; ++i) {
    waiting.push_back(std::make_unique<WaitingForReserve>(
        &service, WaitingReserve("order-1", "w" + std::to_string(i), seconds(20))));
  }
  AwaitWaiters(&service, kWaiters);
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("order-2")).response.outcome(),
            v1::RESERVE_OUTCOME_ACQUIRED);
  service.Call(&Api::Complete, Complete("order-1", token));
  for (const auto& waiter : waiting) {
    EXPECT_EQ(waiter->Result().response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  }
}

}  // namespace
}  // namespace idempotency::testing
