// The release binary, killed with -9 under load and started again on the same store: every fact
// that it acknowledged is still there, and no key is ever held twice.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/server_process.h"

namespace idempotency {
namespace {

constexpr int kCycles = 4;
constexpr int kClients = 8;
constexpr int kOperationsBeforeKill = 400;

// What one client was told, and so may rely on.
struct Fact {
  v1::OperationState state = v1::OPERATION_STATE_PENDING;
  uint64_t token = 0;
  std::string body;
};

struct Call {
  Call() { context.set_deadline(std::chrono::system_clock::time_point::max()); }
  grpc::ClientContext context;
};

class Client {
 public:
  Client(std::shared_ptr<grpc::Channel> channel, std::string name)
      : stub_(v1::IdempotencyService::NewStub(channel)), name_(std::move(name)) {}

  // Runs operations until the server is gone.
  void Run(std::atomic<int>* acknowledged) {
    for (int i = 0; RunOne(name_ + "-" + std::to_string(i), i % 4, acknowledged); ++i) {
    }
  }

  const std::map<std::string, Fact>& facts() const { return facts_; }

 private:
  static void SetId(const std::string& key, v1::OperationId* id) {
    id->set_namespace_("payments");
    id->set_scope("acct_1");
    id->set_key(key);
  }

  bool RunOne(const std::string& key, int ending, std::atomic<int>* acknowledged) {
    v1::ReserveRequest reserve;
    SetId(key, reserve.mutable_id());
    reserve.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
    reserve.mutable_fingerprint()->set_digest(std::string(32, 'f'));
    reserve.set_attempt_id("attempt-" + key + "-0123456789");
    reserve.mutable_lease_duration()->set_seconds(3600);
    v1::ReserveResponse reserved;
    if (Call call; !stub_->Reserve(&call.context, reserve, &reserved).ok()) return false;
    EXPECT_EQ(reserved.outcome(), v1::RESERVE_OUTCOME_ACQUIRED) << reserved.DebugString();
    Fact& fact = facts_[key];
    fact.token = reserved.lease().fencing_token();
    ++*acknowledged;
    return End(key, ending, &fact, acknowledged);
  }

  bool End(const std::string& key, int ending, Fact* fact, std::atomic<int>* acknowledged) {
    Call call;
    grpc::Status status;
    v1::OperationState state = v1::OPERATION_STATE_PENDING;
    const std::string body = "answer to " + key;
    if (ending == 0) {
      v1::CompleteRequest request;
      SetId(key, request.mutable_id());
      request.set_fencing_token(fact->token);
      request.set_verdict(v1::VERDICT_SUCCEEDED);
      request.mutable_response()->set_body(body);
      v1::CompleteResponse response;
      status = stub_->Complete(&call.context, request, &response);
      state = v1::OPERATION_STATE_COMPLETE;
    } else if (ending == 1) {
      v1::MarkUnresolvedRequest request;
      SetId(key, request.mutable_id());
      request.set_fencing_token(fact->token);
      request.set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT);
      v1::MarkUnresolvedResponse response;
      status = stub_->MarkUnresolved(&call.context, request, &response);
      state = v1::OPERATION_STATE_UNRESOLVED;
    } else if (ending == 2) {
      v1::ReleaseRequest request;
      SetId(key, request.mutable_id());
      request.set_fencing_token(fact->token);
      v1::ReleaseResponse response;
      status = stub_->Release(&call.context, request, &response);
      state = v1::OPERATION_STATE_FREED;
    }
    if (!status.ok()) {
      // Applied or not, nobody knows: nothing may be relied on but the token.
      fact->state = v1::OPERATION_STATE_UNSPECIFIED;
      return false;
    }
    fact->state = state;
    if (ending == 0) fact->body = body;
    ++*acknowledged;
    return true;
  }

  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  const std::string name_;
  std::map<std::string, Fact> facts_;
};

v1::InspectOperationResponse Inspect(v1::IdempotencyAdminService::Stub& stub,
                                     const std::string& key) {
  v1::InspectOperationRequest request;
  request.mutable_id()->set_namespace_("payments");
  request.mutable_id()->set_scope("acct_1");
  request.mutable_id()->set_key(key);
  v1::InspectOperationResponse response;
  Call call;
  const grpc::Status status = stub.InspectOperation(&call.context, request, &response);
  EXPECT_TRUE(status.ok()) << key << ": " << status.error_message();
  return response;
}

void ExpectStillTrue(const std::map<std::string, Fact>& facts,
                     const testing::ServerProcess& server) {
  auto stub = v1::IdempotencyAdminService::NewStub(server.Channel());
  for (const auto& [key, fact] : facts) {
    const v1::InspectOperationResponse found = Inspect(*stub, key);
    EXPECT_EQ(found.fencing_token(), fact.token) << key;
    if (fact.state != v1::OPERATION_STATE_UNSPECIFIED) {
      EXPECT_EQ(found.operation().state(), fact.state) << key;
      EXPECT_EQ(found.operation().response().body(), fact.body) << key;
    }
  }
}

TEST(CrashTest, EveryAcknowledgedFactIsThereAfterKillMinusNine) {
  TempDirectory directory;
  testing::ServerProcess server({"--data_dir=" + directory.path() + "/store", "--ballast_mb=0"});
  std::map<std::string, Fact> facts;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<std::thread> threads;
    std::atomic<int> acknowledged{0};
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(std::make_unique<Client>(
          server.Channel(), "c" + std::to_string(cycle) + "-" + std::to_string(i)));
    }
    // Not before the vector has all of them.
    for (const auto& client : clients) {
      threads.emplace_back([&acknowledged, &client] { client->Run(&acknowledged); });
    }
    while (acknowledged < kOperationsBeforeKill) std::this_thread::yield();
    server.Kill();
    for (std::thread& thread : threads) thread.join();
    server.Start();
    for (const auto& client : clients) {
      facts.insert(client->facts().begin(), client->facts().end());
    }
    ExpectStillTrue(facts, server);
  }
  EXPECT_EQ(server.Terminate(), 0) << server.Log();
}

TEST(CrashTest, ARepeatedReserveFindsItsLeaseAfterKillMinusNine) {
  TempDirectory directory;
  testing::ServerProcess server({"--data_dir=" + directory.path() + "/store", "--ballast_mb=0"});
  v1::ReserveRequest request;
  request.mutable_id()->set_namespace_("payments");
  request.mutable_id()->set_scope("acct_1");
  request.mutable_id()->set_key("order-1");
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request.set_attempt_id("attempt-0123456789");
  request.mutable_lease_duration()->set_seconds(3600);
  v1::ReserveResponse first;
  v1::ReserveResponse second;
  {
    Call call;
    auto stub = v1::IdempotencyService::NewStub(server.Channel());
    ASSERT_TRUE(stub->Reserve(&call.context, request, &first).ok());
  }
  server.Kill();
  server.Start();
  Call call;
  auto stub = v1::IdempotencyService::NewStub(server.Channel());
  ASSERT_TRUE(stub->Reserve(&call.context, request, &second).ok());
  EXPECT_EQ(first.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(second.outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD);
  EXPECT_EQ(second.lease().fencing_token(), first.lease().fencing_token());
  EXPECT_EQ(server.Terminate(), 0) << server.Log();
}

}  // namespace
}  // namespace idempotency
