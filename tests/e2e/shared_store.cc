#include "tests/e2e/shared_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/service/server/commands.h"
#include "tests/support/becomes_true.h"

namespace idempotency::testing {
namespace {

bool IsAnswered(const grpc::Status& status) {
  return status.error_code() != grpc::UNAVAILABLE &&
         status.error_code() != grpc::RESOURCE_EXHAUSTED;
}

}  // namespace

bool IsHeld(const v1::ReserveResponse& response) {
  return response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED ||
         response.outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD;
}

Caller::Caller(const ServerProcess& server)
    : stub_(v1::IdempotencyService::NewStub(server.Channel())) {}

v1::ReserveResponse Caller::Send(const v1::ReserveRequest& request) {
  grpc::ClientContext context;
  v1::ReserveResponse response;
  status_ = stub_->Reserve(&context, request, &response);
  return response;
}

v1::CompleteResponse Caller::Send(const v1::CompleteRequest& request) {
  grpc::ClientContext context;
  v1::CompleteResponse response;
  status_ = stub_->Complete(&context, request, &response);
  return response;
}

v1::ReserveResponse Caller::SendUntilAnswered(const v1::ReserveRequest& request) {
  v1::ReserveResponse response;
  BecomesTrue([&] {
    response = Send(request);
    return IsAnswered(status_);
  });
  return response;
}

v1::CompleteResponse Caller::SendUntilAnswered(const v1::CompleteRequest& request) {
  v1::CompleteResponse response;
  BecomesTrue([&] {
    response = Send(request);
    return IsAnswered(status_);
  });
  return response;
}

void ALifeCycleOverTwoServersAndTheDeathOfOne(const std::vector<std::string>& flags) {
  ServerProcess one(flags);
  ServerProcess two(flags);
  Caller first(one);
  Caller second(two);
  v1::ReserveRequest reserve = Reserve("a");
  reserve.mutable_lease_duration()->set_seconds(3600);
  const v1::ReserveResponse held = first.SendUntilAnswered(reserve);
  ASSERT_TRUE(first.status().ok()) << first.status().error_message();
  ASSERT_TRUE(IsHeld(held)) << held.ShortDebugString();
  EXPECT_EQ(second.SendUntilAnswered(Reserve("a", "2")).outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  EXPECT_EQ(second.SendUntilAnswered(reserve).outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD);

  // The server that granted it is gone, and the other one takes the report.
  one.Kill();
  second.SendUntilAnswered(Complete("a", held.lease().fencing_token(), "done by the first"));
  EXPECT_TRUE(second.status().ok()) << second.status().error_message();
  one.Start();
  Caller again(one);
  const v1::ReserveResponse replay = again.SendUntilAnswered(Reserve("a", "3"));
  EXPECT_EQ(replay.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(replay.operation().response().body(), "done by the first");
  EXPECT_GT(again.SendUntilAnswered(Reserve("b")).lease().fencing_token(),
            held.lease().fencing_token());
  EXPECT_EQ(one.Terminate(), 0);
  EXPECT_EQ(two.Terminate(), 0);
}

void OfTwoWhoClaimOneKeyOnTwoServersOneWins(const std::vector<std::string>& flags) {
  ServerProcess one(flags);
  ServerProcess two(flags);
  constexpr size_t kKeys = 200;
  std::vector<std::atomic<int>> wins(kKeys);
  std::vector<std::thread> claimers;
  for (int claimer = 0; claimer < 4; ++claimer) {
    claimers.emplace_back([&, claimer] {
      Caller caller(claimer % 2 == 0 ? one : two);
      for (size_t i = 0; i < kKeys; ++i) {
        const v1::ReserveResponse response =
            caller.SendUntilAnswered(Reserve("k" + std::to_string(i), std::to_string(claimer)));
        EXPECT_TRUE(caller.status().ok()) << caller.status().error_message();
        if (IsHeld(response)) ++wins[i];
      }
    });
  }
  for (std::thread& claimer : claimers) claimer.join();
  for (size_t i = 0; i < kKeys; ++i) EXPECT_EQ(wins[i], 1) << "key " << i;
}

}  // namespace idempotency::testing
