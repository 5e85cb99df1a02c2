// The release binary on a real etcd: a life cycle, two servers on one store, a server that dies, an
// etcd that has no quorum.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/e2e/shared_store.h"
#include "tests/service/server/commands.h"
#include "tests/support/etcd_process.h"
#include "tests/support/server_process.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""s;

std::vector<std::string> On(const EtcdCluster& etcd) {
  return {"--engine=etcd", "--etcd_endpoints=" + etcd.endpoints_flag()};
}

// Asks again for as long as the store cannot say, as clients do.
v1::ReserveResponse SendUntilAnswered(Caller& caller, const v1::ReserveRequest& request) {
  v1::ReserveResponse response = caller.Send(request);
  for (int i = 0; caller.status().error_code() == grpc::StatusCode::UNAVAILABLE && i < 600; ++i) {
    WaitABit(100);
    response = caller.Send(request);
  }
  return response;
}

TEST(EtcdE2e, ALifeCycleOverTwoServersAndTheDeathOfOne) {
  const EtcdCluster etcd(1);
  testing::ALifeCycleOverTwoServersAndTheDeathOfOne(On(etcd));
}

TEST(EtcdE2e, OfTwoWhoClaimOneKeyOnTwoServersOneWins) {
  const EtcdCluster etcd(1);
  testing::OfTwoWhoClaimOneKeyOnTwoServersOneWins(On(etcd));
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
  const v1::ReserveResponse held = SendUntilAnswered(caller, Reserve("a"));
  ASSERT_EQ(held.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  etcd.member(0).Kill();
  EXPECT_EQ(SendUntilAnswered(caller, Reserve("a", "2")).outcome(),
            v1::RESERVE_OUTCOME_IN_PROGRESS);
  etcd.member(1).Kill();
  caller.Send(Reserve("b"));
  EXPECT_EQ(caller.status().error_code(), grpc::StatusCode::UNAVAILABLE);
  caller.Send(Reserve("a", "2"));
  EXPECT_EQ(caller.status().error_code(), grpc::StatusCode::UNAVAILABLE);
  etcd.member(1).Start();
  EXPECT_EQ(SendUntilAnswered(caller, Reserve("a", "2")).outcome(),
            v1::RESERVE_OUTCOME_IN_PROGRESS);
  caller.Send(Complete("a", held.lease().fencing_token()));
  EXPECT_TRUE(caller.status().ok()) << caller.status().error_message();
  EXPECT_EQ(server.Terminate(), 0);
}

}  // namespace
}  // namespace idempotency::testing
