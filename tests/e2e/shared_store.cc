#include "tests/e2e/shared_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/service/server/commands.h"

namespace idempotency::testing {

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

void ALifeCycleOverTwoServersAndTheDeathOfOne(const std::vector<std::string>& flags) {
  ServerProcess one(flags);
  ServerProcess two(flags);
  Caller first(one);
  Caller second(two);
  const v1::ReserveResponse held = first.Send(Reserve("a"));
  ASSERT_TRUE(first.status().ok()) << first.status().error_message();
  ASSERT_EQ(held.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(second.Send(Reserve("a", "2")).outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  EXPECT_EQ(second.Send(Reserve("a")).outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD);

  // The server that granted it is gone, and the other one takes the report.
  one.Kill();
  second.Send(Complete("a", held.lease().fencing_token(), "done by the first"));
  EXPECT_TRUE(second.status().ok()) << second.status().error_message();
  one.Start();
  Caller again(one);
  const v1::ReserveResponse replay = again.Send(Reserve("a", "3"));
  EXPECT_EQ(replay.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(replay.operation().response().body(), "done by the first");
  EXPECT_GT(again.Send(Reserve("b")).lease().fencing_token(), held.lease().fencing_token());
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
            caller.Send(Reserve("k" + std::to_string(i), std::to_string(claimer)));
        EXPECT_TRUE(caller.status().ok()) << caller.status().error_message();
        if (response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED) ++wins[i];
      }
    });
  }
  for (std::thread& claimer : claimers) claimer.join();
  for (size_t i = 0; i < kKeys; ++i) EXPECT_EQ(wins[i], 1) << "key " << i;
}

}  // namespace idempotency::testing
