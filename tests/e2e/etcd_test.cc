// The release binary on a real etcd: a life cycle, two servers on one store, a server that dies, an
// etcd that has no quorum.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/service/server/commands.h"
#include "tests/support/etcd_process.h"
#include "tests/support/server_process.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""s;

std::vector<std::string> On(const EtcdCluster& etcd) {
  return {"--engine=etcd", "--etcd_endpoints=" + etcd.endpoints_flag()};
}

class Caller {
 public:
  explicit Caller(const ServerProcess& server)
      : stub_(v1::IdempotencyService::NewStub(server.Channel())) {}

  v1::ReserveResponse Send(const v1::ReserveRequest& request) {
    grpc::ClientContext context;
    v1::ReserveResponse response;
    status_ = stub_->Reserve(&context, request, &response);
    return response;
  }
  v1::CompleteResponse Send(const v1::CompleteRequest& request) {
    grpc::ClientContext context;
    v1::CompleteResponse response;
    status_ = stub_->Complete(&context, request, &response);
    return response;
  }
  // Asks again for as long as the store cannot say, as clients do.
  v1::ReserveResponse SendUntilAnswered(const v1::ReserveRequest& request) {
    v1::ReserveResponse response = Send(request);
    for (int i = 0; status_.error_code() == grpc::StatusCode::UNAVAILABLE && i < 600; ++i) {
      WaitABit(100);
      response = Send(request);
    }
    return response;
  }
  const grpc::Status& status() const { return status_; }

 private:
  const std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  grpc::Status status_;
};

TEST(EtcdE2e, ALifeCycleOverTwoServersAndTheDeathOfOne) {
  const EtcdCluster etcd(1);
  ServerProcess one(On(etcd));
  ServerProcess two(On(etcd));
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

TEST(EtcdE2e, OfTwoWhoClaimOneKeyOnTwoServersOneWins) {
  const EtcdCluster etcd(1);
  ServerProcess one(On(etcd));
  ServerProcess two(On(etcd));
  constexpr int kKeys = 200;
  std::vector<std::atomic<int>> wins(kKeys);
  std::vector<std::thread> claimers;
  for (int claimer = 0; claimer < 4; ++claimer) {
    claimers.emplace_back([&, claimer] {
      Caller caller(claimer % 2 == 0 ? one : two);
      for (int i = 0; i < kKeys; ++i) {
        const v1::ReserveResponse response =
            caller.Send(Reserve("k" + std::to_string(i), std::to_string(claimer)));
        EXPECT_TRUE(caller.status().ok()) << caller.status().error_message();
        if (response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED) ++wins[i];
      }
    });
  }
  for (std::thread& claimer : claimers) claimer.join();
  for (int i = 0; i < kKeys; ++i) EXPECT_EQ(wins[i], 1) << "key " << i;
}

TEST(EtcdE2e, WhoWaitsOnOneServerHearsOfTheEndOnAnother) {
  const EtcdCluster etcd(1);
  ServerProcess one(On(etcd));
  ServerProcess two(On(etcd));
  Caller owner(one);
  const uint64_t token = owner.Send(Reserve("a")).lease().fencing_token();
  v1::ReserveResponse heard;
  // Far shorter than the lease: without word from the other server it would be IN_PROGRESS.
  std::thread waiter([&] { heard = Caller(two).Send(WaitingReserve("a", "2", 10s)); });
  // It waits when another who does not wait is told what holds.
  WaitABit(500);
  owner.Send(Complete("a", token));
  waiter.join();
  EXPECT_EQ(heard.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
}

TEST(EtcdE2e, WithoutAQuorumNothingIsAnsweredAndWithOneItGoesOn) {
  EtcdCluster etcd(3, {"--heartbeat-interval=50", "--election-timeout=500"});
  ServerProcess server(On(etcd));
  Caller caller(server);
  const v1::ReserveResponse held = caller.SendUntilAnswered(Reserve("a"));
  ASSERT_EQ(held.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  etcd.member(0).Kill();
  EXPECT_EQ(caller.SendUntilAnswered(Reserve("a", "2")).outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  etcd.member(1).Kill();
  caller.Send(Reserve("b"));
  EXPECT_EQ(caller.status().error_code(), grpc::StatusCode::UNAVAILABLE);
  caller.Send(Reserve("a", "2"));
  EXPECT_EQ(caller.status().error_code(), grpc::StatusCode::UNAVAILABLE);
  etcd.member(1).Start();
  EXPECT_EQ(caller.SendUntilAnswered(Reserve("a", "2")).outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  caller.Send(Complete("a", held.lease().fencing_token()));
  EXPECT_TRUE(caller.status().ok()) << caller.status().error_message();
  EXPECT_EQ(server.Terminate(), 0);
}

}  // namespace
}  // namespace idempotency::testing
