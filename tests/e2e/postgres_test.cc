// The release binary on a real PostgreSQL: a life cycle over two servers, rivals on both, a waiter
// that hears of an end on the other, a primary that is killed under load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/service/server/commands.h"
#include "tests/support/postgres_process.h"
#include "tests/support/server_process.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""s;

std::vector<std::string> On(const PostgresServer& postgres) {
  return {"--engine=postgres", "--postgres_uri=" + postgres.TcpUri("idempotency")};
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
  // Asks again for as long as the store cannot say, or keeps newcomers away, as clients do.
  template <typename Request>
  auto SendUntilAnswered(const Request& request) {
    for (;;) {
      auto response = Send(request);
      const grpc::StatusCode code = status_.error_code();
      if (code != grpc::UNAVAILABLE && code != grpc::RESOURCE_EXHAUSTED) return response;
      std::this_thread::yield();
    }
  }
  const grpc::Status& status() const { return status_; }

 private:
  const std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  grpc::Status status_;
};

TEST(PostgresE2e, ALifeCycleOverTwoServersAndTheDeathOfOne) {
  const PostgresServer postgres;
  ServerProcess one(On(postgres));
  ServerProcess two(On(postgres));
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

TEST(PostgresE2e, OfTwoWhoClaimOneKeyOnTwoServersOneWins) {
  const PostgresServer postgres;
  ServerProcess one(On(postgres));
  ServerProcess two(On(postgres));
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

TEST(PostgresE2e, WhoWaitsOnOneServerHearsOfTheEndOnAnother) {
  const PostgresServer postgres;
  ServerProcess one(On(postgres));
  ServerProcess two(On(postgres));
  Caller owner(one);
  const uint64_t token = owner.Send(Reserve("a")).lease().fencing_token();
  v1::ReserveResponse heard;
  // Shorter than the lease: without word from the other server it would be IN_PROGRESS.
  std::thread waiter([&] { heard = Caller(two).Send(WaitingReserve("a", "2", 20s)); });
  owner.Send(Complete("a", token));
  waiter.join();
  EXPECT_EQ(heard.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
}

// What one client was told, and so may rely on.
using Facts = std::map<std::string, uint64_t>;

// Claims and completes until a call fails.
Facts RunUntilAFailure(const ServerProcess& server, const std::string& name,
                       std::atomic<int>* acknowledged) {
  Caller caller(server);
  Facts facts;
  for (int i = 0;; ++i) {
    const std::string key = name + "-" + std::to_string(i);
    const v1::ReserveResponse held = caller.Send(Reserve(key));
    if (!caller.status().ok()) return facts;
    caller.Send(Complete(key, held.lease().fencing_token(), key));
    if (!caller.status().ok()) return facts;
    facts[key] = held.lease().fencing_token();
    ++*acknowledged;
  }
}

TEST(PostgresE2e, APrimaryThatIsKilledUnderLoadHasLostNothingThatWasAcknowledged) {
  PostgresServer postgres;
  ServerProcess server(On(postgres));
  constexpr size_t kClients = 4;
  std::atomic<int> acknowledged{0};
  std::vector<Facts> facts(kClients);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.emplace_back(
        [&, i] { facts[i] = RunUntilAFailure(server, "c" + std::to_string(i), &acknowledged); });
  }
  while (acknowledged < 300) std::this_thread::yield();
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
