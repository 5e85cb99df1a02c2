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
  v1::ReserveRequest reserve = Reserve("a");
  reserve.mutable_lease_duration()->set_seconds(3600);
  const uint64_t token = owner.SendUntilAnswered(reserve).lease().fencing_token();
  v1::ReserveResponse heard;
  // Far shorter than the lease: without word from the other server it would be IN_PROGRESS.
  std::thread waiter([&] { heard = Caller(two).SendUntilAnswered(WaitingReserve("a", "2", 50s)); });
  // It waits by then, on most machines: where it does not, it need not, and is told the same.
  WaitABit(500);
  owner.SendUntilAnswered(Complete("a", token));
  waiter.join();
  EXPECT_EQ(heard.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
}

TEST(EtcdE2e, WithoutAQuorumNothingIsAnsweredAndWithOneItGoesOn) {
  EtcdCluster etcd(3, {"--heartbeat-interval=50", "--election-timeout=500"});
  ServerProcess server(On(etcd));
  Caller caller(server);
  // Longer than anything here takes.
  v1::ReserveRequest reserve = Reserve("a");
  reserve.mutable_lease_duration()->set_seconds(3600);
  const v1::ReserveResponse held = caller.SendUntilAnswered(reserve);
  ASSERT_TRUE(IsHeld(held)) << held.ShortDebugString();
  etcd.member(0).Kill();
  EXPECT_EQ(caller.SendUntilAnswered(Reserve("a", "2")).outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  etcd.member(1).Kill();
  caller.Send(Reserve("b"));
  EXPECT_EQ(caller.status().error_code(), grpc::StatusCode::UNAVAILABLE);
  caller.Send(Reserve("a", "2"));
  EXPECT_EQ(caller.status().error_code(), grpc::StatusCode::UNAVAILABLE);
  etcd.member(1).Start();
  EXPECT_EQ(caller.SendUntilAnswered(Reserve("a", "2")).outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  caller.SendUntilAnswered(Complete("a", held.lease().fencing_token()));
  EXPECT_TRUE(caller.status().ok()) << caller.status().error_message();
  EXPECT_EQ(server.Terminate(), 0);
}

}  // namespace
}  // namespace idempotency::testing
