// The release binary on a real PostgreSQL: a life cycle over two servers, rivals on both, a waiter
// that hears of an end on the other, a primary that is killed under load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/e2e/shared_store.h"
#include "tests/service/server/commands.h"
#include "tests/support/becomes_true.h"
#include "tests/support/postgres_process.h"
#include "tests/support/server_process.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""s;

std::vector<std::string> On(const PostgresServer& postgres) {
  return {"--engine=postgres", "--postgres_uri=" + postgres.TcpUri("idempotency")};
}

TEST(PostgresE2e, ALifeCycleOverTwoServersAndTheDeathOfOne) {
  const PostgresServer postgres;
  testing::ALifeCycleOverTwoServersAndTheDeathOfOne(On(postgres));
}

TEST(PostgresE2e, OfTwoWhoClaimOneKeyOnTwoServersOneWins) {
  const PostgresServer postgres;
  testing::OfTwoWhoClaimOneKeyOnTwoServersOneWins(On(postgres));
}

TEST(PostgresE2e, WhoWaitsOnOneServerHearsOfTheEndOnAnother) {
  const PostgresServer postgres;
  ServerProcess one(On(postgres));
  ServerProcess two(On(postgres));
  Caller owner(one);
  v1::ReserveRequest reserve = Reserve("a");
  reserve.mutable_lease_duration()->set_seconds(3600);
  const uint64_t token = owner.SendUntilAnswered(reserve).lease().fencing_token();
  v1::ReserveResponse heard;
  // Far shorter than the lease: without word from the other server it would be IN_PROGRESS.
  std::thread waiter([&] { heard = Caller(two).SendUntilAnswered(WaitingReserve("a", "2", 50s)); });
  owner.SendUntilAnswered(Complete("a", token));
  waiter.join();
  EXPECT_EQ(heard.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
}

// What one client was told, and so may rely on.
using Facts = std::map<std::string, uint64_t>;

// Claims and completes until a call fails once the primary is killed.
Facts RunUntilTheEnd(const ServerProcess& server, const std::string& name,
                     const std::atomic<bool>& killed, std::atomic<int>* acknowledged) {
  Caller caller(server);
  Facts facts;
  for (int i = 0;; ++i) {
    const std::string key = name + "-" + std::to_string(i);
    const v1::ReserveResponse held = caller.Send(Reserve(key));
    if (caller.status().ok()) caller.Send(Complete(key, held.lease().fencing_token(), key));
    if (caller.status().ok()) {
      facts[key] = held.lease().fencing_token();
      ++*acknowledged;
    } else if (killed) {
      return facts;
    }
  }
}

TEST(PostgresE2e, APrimaryThatIsKilledUnderLoadHasLostNothingThatWasAcknowledged) {
  PostgresServer postgres;
  ServerProcess server(On(postgres));
  constexpr size_t kClients = 4;
  std::atomic<int> acknowledged{0};
  std::atomic<bool> killed{false};
  std::vector<Facts> facts(kClients);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      facts[i] = RunUntilTheEnd(server, "c" + std::to_string(i), killed, &acknowledged);
    });
  }
  EXPECT_TRUE(BecomesTrue([&] { return acknowledged >= 300; }));
  killed = true;
  postgres.Kill();
  for (std::thread& client : clients) client.join();
  postgres.Start();
  Caller caller(server);
  uint64_t newest = 0;
  for (const Facts& known : facts) {
    for (const auto& [key, token] : known) {
      const v1::ReserveResponse replay = caller.SendUntilAnswered(Reserve(key, "later"));
      EXPECT_EQ(replay.outcome(), v1::RESERVE_OUTCOME_COMPLETED) << key;
      EXPECT_EQ(replay.operation().response().body(), key);
      newest = std::max(newest, token);
    }
  }
  EXPECT_GT(caller.SendUntilAnswered(Reserve("after")).lease().fencing_token(), newest);
  EXPECT_EQ(server.Terminate(), 0);
}

}  // namespace
}  // namespace idempotency::testing
