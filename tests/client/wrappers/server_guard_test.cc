// ServerGuard in front of a synchronous and of a callback service: one handler call a key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/src/grpc/status_details.h"
#include "idempotency/keys.h"
#include "idempotency/testing/mock_connection.h"
#include "tests/client/wrappers/bank_fixture.h"

namespace idempotency::testing {
namespace {

using bank::v1::Bank;
using bank::v1::Charge;
using bank::v1::ChargeRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::NiceMock;
using ::testing::Not;

using Handler = std::function<grpc::Status(const ChargeRequest&, Charge*, GuardedCall&)>;

class SyncBank final : public Bank::Service {
 public:
  SyncBank(ServerGuard* guard, const Handler* handler) : guard_(guard), handler_(handler) {}

  grpc::Status CreateCharge(grpc::ServerContext* context, const ChargeRequest* request,
                            Charge* response) override {
    return guard_->Call(context, kChargeMethod, *request, response,
                        [&](GuardedCall& call) { return (*handler_)(*request, response, call); });
  }

 private:
  ServerGuard* const guard_;
  const Handler* const handler_;
};

class CallbackBank final : public Bank::CallbackService {
 public:
  CallbackBank(ServerGuard* guard, const Handler* handler) : guard_(guard), handler_(handler) {}

  grpc::ServerUnaryReactor* CreateCharge(grpc::CallbackServerContext* context,
                                         const ChargeRequest* request, Charge* response) override {
    return guard_->Call(context, kChargeMethod, *request, response,
                        [this, request, response](GuardedCall& call) {
                          return (*handler_)(*request, response, call);
                        });
  }

 private:
  ServerGuard* const guard_;
  const Handler* const handler_;
};

// A guarded bank and whoever calls it.
class GuardedBank {
 public:
  GuardedBank(bool callback, Client client, GuardOptions options, const Handler* handler)
      : guard_(std::move(client), std::move(options)) {
    if (callback) {
      service_ = std::make_unique<CallbackBank>(&guard_, handler);
    } else {
      service_ = std::make_unique<SyncBank>(&guard_, handler);
    }
    server_ = std::make_unique<LocalServer>(service_.get());
    stub_ = Bank::NewStub(server_->Channel());
  }

  Bank::Stub& stub() { return *stub_; }

 private:
  ServerGuard guard_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<LocalServer> server_;
  std::unique_ptr<Bank::Stub> stub_;
};

struct Told {
  grpc::Status status;
  Charge charge;
  std::multimap<std::string, std::string> trailers;

  std::string reason() const { return internal::ReasonOf(status); }
  std::string Trailer(const std::string& name) const {
    const auto found = trailers.find(name);
    return found == trailers.end() ? "none" : found->second;
  }
};

Told CallWith(Bank::Stub& stub, grpc::ClientContext& context, const ChargeRequest& request) {
  Told told;
  told.status = stub.CreateCharge(&context, request, &told.charge);
  for (const auto& [name, value] : context.GetServerTrailingMetadata()) {
    told.trailers.emplace(std::string(name.data(), name.size()),
                          std::string(value.data(), value.size()));
  }
  return told;
}

Told CallBank(Bank::Stub& stub, const std::vector<std::string>& keys,
              const ChargeRequest& request = ChargeOf(100)) {
  grpc::ClientContext context;
  for (const std::string& key : keys) context.AddMetadata("idempotency-key", key);
  return CallWith(stub, context, request);
}

class ServerGuardTest : public ::testing::TestWithParam<bool> {
 protected:
  // Made by the first call, so that a test can change the options before.
  GuardedBank& bank() {
    if (!bank_) {
      bank_ = std::make_unique<GuardedBank>(GetParam(), client, options, &counted_);
    }
    return *bank_;
  }
  Told Call(const std::string& key = "order-1", const ChargeRequest& request = ChargeOf(100)) {
    return CallBank(bank().stub(), {key}, request);
  }
  std::optional<Operation> Recorded(const std::string& key = "order-1") {
    return memory.service->Find({"payments", "acct_1", key});
  }

  ServiceInMemory memory;
  Client client = memory.client;
  GuardOptions options{.name_space = "payments", .scope = [](const grpc::ServerContextBase&) {
                         return std::string("acct_1");
                       }};
  std::atomic<int> handled{0};
  Handler handler = [](const ChargeRequest& request, Charge* response, GuardedCall&) {
    response->set_cents(request.cents());
    return grpc::Status::OK;
  };

 private:
  const Handler counted_ = [this](const ChargeRequest& request, Charge* response,
                                  GuardedCall& call) {
    response->set_id("ch_" + std::to_string(++handled));
    return handler(request, response, call);
  };
  std::unique_ptr<GuardedBank> bank_;
};

INSTANTIATE_TEST_SUITE_P(Services, ServerGuardTest, ::testing::Bool(),
                         [](const auto& row) { return row.param ? "Callback" : "Sync"; });

// --- One key -------------------------------------------------------------------------------------

TEST_P(ServerGuardTest, TakesExactlyOneKey) {
  struct Row {
    const char* name;
    std::vector<std::string> keys;
    const char* reason;
  };
  const Row rows[] = {
      {"none", {}, "KEY_MISSING"},
      {"empty", {""}, "KEY_MISSING"},
      {"two", {"a", "b"}, "KEY_REPEATED"},
      {"the same twice", {"a", "a"}, "KEY_REPEATED"},
      {"two in one", {"a, b"}, "KEY_REPEATED"},
      {"with a space", {"a b"}, "KEY_MALFORMED"},
      {"with 256 bytes", {std::string(256, 'k')}, "KEY_TOO_LONG"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Told told = CallBank(bank().stub(), row.keys);
    EXPECT_EQ(told.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(told.reason(), row.reason);
    EXPECT_EQ(told.Trailer("idempotency-reason"), row.reason);
  }
  EXPECT_EQ(handled, 0);
  EXPECT_THAT(memory.service->All(), IsEmpty());
  EXPECT_TRUE(CallBank(bank().stub(), {std::string(255, 'k')}).status.ok());
  EXPECT_TRUE(CallBank(bank().stub(), {"\"quoted\""}).status.ok());
  EXPECT_TRUE(Recorded("quoted").has_value());
}

TEST_P(ServerGuardTest, TheKeyMayHaveAnotherName) {
  options.key_metadata = "x-request-id";
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "order-1");
  EXPECT_TRUE(CallWith(bank().stub(), context, ChargeOf(100)).status.ok());
  EXPECT_TRUE(Recorded().has_value());
}

// --- Replays -------------------------------------------------------------------------------------

TEST_P(ServerGuardTest, RunsTheHandlerOnceAndReplaysItsReply) {
  handler = [](const ChargeRequest&, Charge* response, GuardedCall& call) {
    EXPECT_EQ(call.key(), "order-1");
    EXPECT_EQ(call.attempt().provider_key(), ProviderKey({"payments", "acct_1", "order-1"}));
    call.AddTrailingMetadata("x-receipt", "r-1");
    call.AddTrailingMetadata("x-seal-bin", std::string("\0\n\xff", 3));
    call.AddTrailingMetadata("Illegal", "is left out");
    response->set_receipt(std::string("\0\xff", 2));
    return grpc::Status::OK;
  };
  const Told first = Call();
  const Told second = Call();
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(first.charge.id(), "ch_1");
  EXPECT_EQ(second.charge.SerializeAsString(), first.charge.SerializeAsString());
  EXPECT_EQ(first.Trailer("idempotency-replayed"), "none");
  EXPECT_EQ(second.Trailer("idempotency-replayed"), "true");
  for (const Told& told : {first, second}) {
    EXPECT_TRUE(told.status.ok());
    EXPECT_EQ(told.Trailer("x-receipt"), "r-1");
    EXPECT_EQ(told.Trailer("x-seal-bin"), std::string("\0\n\xff", 3));
    EXPECT_EQ(told.Trailer("idempotency-record-open"), "none");
  }
}

TEST_P(ServerGuardTest, ReplaysAFinalFailureWithItsDetails) {
  handler = [](const ChargeRequest&, Charge*, GuardedCall& call) {
    call.AddTrailingMetadata("x-decline", "51");
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "declined", "details \x01");
  };
  const Told first = Call();
  const Told second = Call();
  EXPECT_EQ(handled, 1);
  for (const Told& told : {first, second}) {
    EXPECT_EQ(told.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(told.status.error_message(), "declined");
    EXPECT_EQ(told.status.error_details(), "details \x01");
    EXPECT_EQ(told.Trailer("x-decline"), "51");
  }
  EXPECT_EQ(first.Trailer("idempotency-replayed"), "none");
  EXPECT_EQ(second.Trailer("idempotency-replayed"), "true");
}

TEST_P(ServerGuardTest, NoticesAnotherRequestUnderTheKey) {
  Call("order-1", ChargeOf(100));
  const Told told = Call("order-1", ChargeOf(200));
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(told.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(told.reason(), "MISMATCH");
  EXPECT_EQ(told.Trailer("idempotency-replayed"), "none");
}

TEST_P(ServerGuardTest, ExcludedFieldsDoNotCount) {
  options.fingerprint.exclude = {"trace_id"};
  Call("order-1", ChargeOf(100, "trace-1"));
  EXPECT_EQ(Call("order-1", ChargeOf(100, "trace-2")).Trailer("idempotency-replayed"), "true");
}

TEST_P(ServerGuardTest, TwoScopesNeverMeet) {
  options.scope = [](const grpc::ServerContextBase& context) -> absl::StatusOr<std::string> {
    const auto accounts = Values(context.client_metadata(), "test-account");
    if (accounts.size() == 1) return accounts[0];
    return absl::UnauthenticatedError("who is asking?");
  };
  for (const std::string account : {"acct_1", "acct_2"}) {
    grpc::ClientContext context;
    context.AddMetadata("idempotency-key", "order-1");
    context.AddMetadata("test-account", account);
    EXPECT_TRUE(CallWith(bank().stub(), context, ChargeOf(100)).status.ok());
  }
  EXPECT_EQ(handled, 2);
  const Told nobody = Call();
  EXPECT_EQ(nobody.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(nobody.status.error_message(), "who is asking?");
  EXPECT_EQ(handled, 2);
}

// --- At the same time ----------------------------------------------------------------------------

TEST_P(ServerGuardTest, TellsADuplicateToComeBack) {
  absl::Notification started;
  absl::Notification go_on;
  handler = [&](const ChargeRequest&, Charge*, GuardedCall&) {
    started.Notify();
    go_on.WaitForNotification();
    return grpc::Status::OK;
  };
  Told first;
  std::thread thread([&] { first = Call(); });
  started.WaitForNotification();
  const Told second = CallBank(bank().stub(), {"order-1"});
  go_on.Notify();
  thread.join();
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(second.reason(), "IN_PROGRESS");
  EXPECT_EQ(internal::RetryAfterOf(second.status), 1s);
  EXPECT_TRUE(first.status.ok());
  EXPECT_EQ(handled, 1);
}

TEST_P(ServerGuardTest, ADuplicateMayWaitForTheAnswer) {
  options.wait = 60s;
  absl::Notification started;
  absl::Notification go_on;
  handler = [&](const ChargeRequest&, Charge*, GuardedCall&) {
    started.Notify();
    go_on.WaitForNotification();
    return grpc::Status::OK;
  };
  Told first;
  Told second;
  std::thread one([&] { first = Call(); });
  started.WaitForNotification();
  std::thread two([&] { second = CallBank(bank().stub(), {"order-1"}); });
  while (memory.service->waiting() == 0) std::this_thread::yield();
  go_on.Notify();
  one.join();
  two.join();
  EXPECT_EQ(second.charge.id(), first.charge.id());
  EXPECT_EQ(second.Trailer("idempotency-replayed"), "true");
  EXPECT_EQ(handled, 1);
}

TEST_P(ServerGuardTest, OneOfManyRuns) {
  constexpr int kCallers = 24;
  constexpr int kKeys = 4;
  options.wait = 60s;
  std::vector<Told> told(kCallers);
  std::vector<std::thread> threads;
  bank();
  for (int i = 0; i < kCallers; ++i) {
    threads.emplace_back([&, i] { told[i] = Call("order-" + std::to_string(i % kKeys)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(handled, kKeys);
  for (int i = 0; i < kCallers; ++i) {
    EXPECT_TRUE(told[i].status.ok()) << i << ": " << told[i].status.error_message();
    EXPECT_EQ(told[i].charge.id(), told[i % kKeys].charge.id()) << i;
  }
}

// --- What nobody knows ---------------------------------------------------------------------------

TEST_P(ServerGuardTest, AnOpenEndIsUnresolved) {
  handler = [](const ChargeRequest&, Charge*, GuardedCall&) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the card network is away");
  };
  const Told first = Call();
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(first.status.error_message(), "the card network is away");
  EXPECT_EQ(Recorded()->state, OperationState::kUnresolved);
  const Told second = Call();
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::UNKNOWN);
  EXPECT_EQ(second.reason(), "UNRESOLVED");
  EXPECT_EQ(handled, 1);
}

TEST_P(ServerGuardTest, AnExceptionIsUnresolvedAndGoesNoFurther) {
  handler = [](const ChargeRequest&, Charge*, GuardedCall&) -> grpc::Status {
    // Something throws: std::stoi.
    return grpc::Status(grpc::StatusCode::OK, std::to_string(std::stoi("not a number")));
  };
  const Told told = Call();
  EXPECT_EQ(told.status.error_code(), grpc::StatusCode::UNKNOWN);
  EXPECT_EQ(told.reason(), "UNRESOLVED");
  EXPECT_EQ(told.charge.id(), "");
  EXPECT_EQ(Recorded()->state, OperationState::kUnresolved);
  EXPECT_EQ(Call().reason(), "UNRESOLVED");
  EXPECT_EQ(handled, 1);
}

TEST_P(ServerGuardTest, AHandlerMayBeCertainThatNothingHappened) {
  handler = [this](const ChargeRequest&, Charge*, GuardedCall& call) {
    if (handled > 1) return grpc::Status::OK;
    return call.NothingHappened(grpc::Status(grpc::StatusCode::UNAVAILABLE, "not connected"));
  };
  const Told first = Call();
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(first.status.error_message(), "not connected");
  EXPECT_EQ(Recorded()->state, OperationState::kFreed);
  const Told second = Call();
  EXPECT_TRUE(second.status.ok());
  EXPECT_EQ(second.charge.id(), "ch_2");
}

TEST_P(ServerGuardTest, WhatWasResolvedIsReplayed) {
  handler = [](const ChargeRequest&, Charge*, GuardedCall&) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "lost");
  };
  Call();
  Charge found;
  found.set_id("ch_found");
  const auto resolved =
      memory.service->Resolve({.id = {"payments", "acct_1", "order-1"},
                               .response = ToCachedResponse(grpc::Status::OK, found),
                               .actor = "somebody",
                               .reason = "looked it up"},
                              {});
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const Told told = Call();
  EXPECT_EQ(told.charge.id(), "ch_found");
  EXPECT_EQ(told.Trailer("idempotency-replayed"), "true");
}

TEST_P(ServerGuardTest, AnAnswerThatIsNoMessageIsNoReplay) {
  handler = [](const ChargeRequest&, Charge*, GuardedCall&) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "lost");
  };
  Call();
  ASSERT_TRUE(memory.service
                  ->Resolve({.id = {"payments", "acct_1", "order-1"},
                             .response = CachedResponse{.body = "{}"},
                             .actor = "somebody",
                             .reason = "typed it in"},
                            {})
                  .ok());
  const Told told = Call();
  EXPECT_EQ(told.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(told.status.error_message(), HasSubstr("bank.v1.Charge"));
  EXPECT_EQ(told.Trailer("idempotency-replayed"), "none");
}

// --- The caller goes -----------------------------------------------------------------------------

TEST_P(ServerGuardTest, TheCallersDeadlineStopsTheHandlerAndNotTheRecord) {
  Duration worked{0};
  handler = [&](const ChargeRequest&, Charge*, GuardedCall& call) {
    // The handler's clock stands still unless somebody moves it.
    for (; !call.attempt().should_stop(); worked += 1ms) memory.environment->Advance(1ms);
    return grpc::Status::OK;
  };
  grpc::ClientContext context;
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(10'000, GPR_TIMESPAN)));
  context.AddMetadata("idempotency-key", "order-1");
  EXPECT_TRUE(CallWith(bank().stub(), context, ChargeOf(100)).status.ok());
  EXPECT_GT(worked, 5s);
  EXPECT_LE(worked, 10'200ms) << "the lease would have lasted for longer";
  EXPECT_EQ(Recorded()->state, OperationState::kComplete);
}

TEST_P(ServerGuardTest, ACancelledCallStopsACallbackHandler) {
  // A synchronous service learns of it by its deadline alone.
  if (!GetParam()) return;
  absl::Notification started;
  absl::Notification stopped;
  handler = [&](const ChargeRequest&, Charge*, GuardedCall& call) {
    call.attempt().OnStop([&] { stopped.Notify(); });
    started.Notify();
    stopped.WaitForNotification();
    return grpc::Status::OK;
  };
  grpc::ClientContext context;
  context.AddMetadata("idempotency-key", "order-1");
  std::thread thread([&] { CallWith(bank().stub(), context, ChargeOf(100)); });
  started.WaitForNotification();
  context.TryCancel();
  thread.join();
  while (Recorded()->state == OperationState::kPending) std::this_thread::yield();
  EXPECT_EQ(Recorded()->state, OperationState::kComplete);
}

TEST_P(ServerGuardTest, HasALimitForCallbackCalls) {
  if (!GetParam()) return;
  options.threads = 1;
  options.max_queued = 1;
  absl::Notification started;
  absl::Notification go_on;
  handler = [&](const ChargeRequest&, Charge*, GuardedCall&) {
    if (handled == 1) {
      started.Notify();
      go_on.WaitForNotification();
    }
    return grpc::Status::OK;
  };
  std::vector<Told> told(3);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { told[0] = Call("order-0"); });
  started.WaitForNotification();
  // One of the two finds the place in line, the other none.
  std::atomic<int> answered{0};
  for (int i = 1; i <= 2; ++i) {
    threads.emplace_back([&, i] {
      told[i] = CallBank(bank().stub(), {"order-" + std::to_string(i)});
      ++answered;
    });
  }
  while (answered == 0) std::this_thread::yield();
  go_on.Notify();
  for (std::thread& thread : threads) thread.join();
  const Told& refused = told[1].status.ok() ? told[2] : told[1];
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason(), "UNAVAILABLE");
  EXPECT_EQ(internal::RetryAfterOf(refused.status), 1s);
  EXPECT_EQ(handled, 2);
}

// What it was given is answered: nothing is left waiting for a thread that has gone.
TEST(GuardEndTest, WaitsForTheCallsOfCallbackServices) {
  ServiceInMemory memory;
  absl::Notification started;
  absl::Notification go_on;
  std::atomic<int> handled{0};
  const Handler handler = [&](const ChargeRequest&, Charge*, GuardedCall&) {
    if (++handled == 1) started.Notify();
    go_on.WaitForNotification();
    return grpc::Status::OK;
  };
  const GuardOptions options{.name_space = "payments",
                             .scope = [](const auto&) { return std::string("acct"); },
                             .threads = 1};
  auto guard = std::make_unique<ServerGuard>(memory.client, options);
  CallbackBank service(guard.get(), &handler);
  LocalServer server(&service);
  const auto stub = Bank::NewStub(server.Channel());
  std::thread caller([&] { EXPECT_TRUE(CallBank(*stub, {"order-1"}).status.ok()); });
  started.WaitForNotification();
  std::atomic<bool> gone{false};
  std::thread end([&] {
    guard.reset();
    gone = true;
  });
  EXPECT_FALSE(gone);
  go_on.Notify();
  end.join();
  caller.join();
  EXPECT_EQ(handled, 1);
}

// --- The service is away -------------------------------------------------------------------------

TEST_P(ServerGuardTest, FailsClosed) {
  auto connection = std::make_shared<NiceMock<MockConnection>>();
  ON_CALL(*connection, Reserve).WillByDefault([](const auto&, const auto&) {
    return absl::UnavailableError("down");
  });
  client = Client(connection, memory.environment);
  const Told told = Call();
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(told.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(told.reason(), "UNAVAILABLE");
  EXPECT_TRUE(internal::RetryAfterOf(told.status).has_value());
}

TEST_P(ServerGuardTest, TellsTheRealAnswerThoughItIsNotRecorded) {
  auto connection = std::make_shared<NiceMock<MockConnection>>();
  ON_CALL(*connection, Reserve).WillByDefault([this](const auto& request, const auto& call) {
    return memory.service->Reserve(request, call);
  });
  ON_CALL(*connection, Complete).WillByDefault([](const auto&, const auto&) {
    return absl::UnavailableError("down");
  });
  client = Client(connection, memory.environment);
  const Told told = Call();
  EXPECT_TRUE(told.status.ok());
  EXPECT_EQ(told.charge.id(), "ch_1");
  EXPECT_EQ(told.Trailer("idempotency-record-open"), "true");
}

TEST_P(ServerGuardTest, RefusesEverythingWhereItIsNotSetUpRightly) {
  options.scope = nullptr;
  const Told told = Call();
  EXPECT_EQ(told.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(told.reason(), "INTERNAL");
  EXPECT_EQ(handled, 0);
}

}  // namespace
}  // namespace idempotency::testing
