// Starting, stopping, coming back, and what holds meanwhile.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "grpc/support/time.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/test_engine.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kServing = 1;
constexpr int kNotServing = 2;

// A Reserve, Complete or the like in flight.
struct AsyncCall {
  grpc::ClientContext context;
  grpc::Status status;
  absl::Notification done;
  std::function<void(grpc::Status)> OnDone() {
    return [this](grpc::Status ended) {
      status = std::move(ended);
      done.Notify();
    };
  }
};

uint64_t Acquire(ServiceFixture* service, const std::string& key) {
  const auto acquired = service->Call(&Api::Reserve, v1::ReserveRequest(Reserve(key)));
  EXPECT_EQ(acquired.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  return acquired.response.lease().fencing_token();
}

// grpc.health.v1.HealthCheckResponse.status, or minus the code of the error.
int HealthOf(ServiceFixture* service, const std::string& name) {
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(service->NewChannel());
  // HealthCheckRequest { string service = 1; }
  const std::string bytes = "\x0a" + std::string(1, static_cast<char>(name.size())) + name;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  AsyncCall call;
  stub.UnaryCall(&call.context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request,
                 &response, call.OnDone());
  call.done.WaitForNotification();
  if (!call.status.ok()) return -call.status.error_code();
  grpc::Slice answer;
  EXPECT_TRUE(response.DumpToSingleSlice(&answer).ok());
  // { ServingStatus status = 1; }
  return answer.size() == 2 ? answer.begin()[1] : 0;
}

TEST(LifecycleTest, EverythingIsInPlaceAfterARestart) {
  ServiceFixture service({.durable = true});
  const uint64_t pending = Acquire(&service, "pending");
  const uint64_t complete = Acquire(&service, "complete");
  service.Call(&Api::Complete, Complete("complete", complete, "the answer"));
  const uint64_t unresolved = Acquire(&service, "unresolved");
  service.Call(&Api::MarkUnresolved, Mark("unresolved", unresolved));

  service.Restart();

  const auto held = service.Call(&Api::Reserve, Reserve("pending"));
  EXPECT_EQ(held.response.outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD);
  EXPECT_EQ(held.response.lease().fencing_token(), pending);
  const auto replayed = service.Call(&Api::Reserve, Reserve("complete", "2"));
  EXPECT_EQ(replayed.response.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  EXPECT_EQ(replayed.response.operation().response().body(), "the answer");
  const auto repeated = service.Call(&Api::Complete, Complete("complete", complete, "the answer"));
  EXPECT_TRUE(repeated.response.already_complete());
  const auto unknown = service.Call(&Api::Reserve, Reserve("unresolved", "2"));
  EXPECT_EQ(unknown.response.outcome(), v1::RESERVE_OUTCOME_UNRESOLVED);
  EXPECT_EQ(unknown.response.operation().unresolved_cause(), v1::UNRESOLVED_CAUSE_TIMEOUT);
  // Tokens rise over a restart, too.
  service.Call(&Api::Release, Release("pending", pending));
  const auto next = service.Call(&Api::Reserve, Reserve("pending", "2"));
  EXPECT_GT(next.response.lease().fencing_token(), pending);
}

TEST(LifecycleTest, LapsesAreNoticedAfterARestart) {
  ServiceFixture service({.durable = true});
  Acquire(&service, "k");
  service.Restart();
  service.Advance(seconds(30));
  AwaitTrue([&] { return service.metrics().Read().lapsed == 1; });
}

TEST(LifecycleTest, HealthIsToldForBothServicesAndTheWhole) {
  ServiceFixture service;
  EXPECT_EQ(HealthOf(&service, ""), kServing);
  EXPECT_EQ(HealthOf(&service, "idempotency.v1.IdempotencyService"), kServing);
  EXPECT_EQ(HealthOf(&service, "idempotency.v1.IdempotencyAdminService"), kServing);
  EXPECT_EQ(HealthOf(&service, "unknown"), -grpc::StatusCode::NOT_FOUND);
}

TEST(LifecycleTest, HealthFallsWithTheEngine) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  controls.Kill();
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("k")).reason, "STORE_UNAVAILABLE");
  EXPECT_TRUE(service.engine_dead());
  EXPECT_EQ(HealthOf(&service, ""), kNotServing);
}

TEST(LifecycleTest, ADeathInTheBackgroundIsNoticed) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  controls.SetPressure({.alive = false});
  service.Advance(seconds(2));
  AwaitTrue([&] { return service.engine_dead(); });
  EXPECT_EQ(HealthOf(&service, ""), kNotServing);
}

// By another server of the same store, as one that was forgotten in a move.
TEST(LifecycleTest, AServerWhoseStoreIsRetiredRefusesEverythingUntilThatIsTakenBack) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  const uint64_t token = Acquire(&service, "open");
  controls.SetPressure({.retired = true});
  AwaitTrue([&] { return HealthOf(&service, "") == kNotServing; });
  const auto refused = service.Call(&Api::Reserve, Reserve("new"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason, "STORE_UNAVAILABLE");
  EXPECT_THAT(refused.status.error_message(), ::testing::HasSubstr("moved to another store"));
  EXPECT_EQ(service.Call(&Api::Complete, Complete("open", token)).reason, "STORE_UNAVAILABLE");
  // What is read may be old.
  EXPECT_EQ(service.Call(&Api::GetOperation, Get("open")).reason, "STORE_UNAVAILABLE");
  controls.SetPressure({});
  AwaitTrue([&] { return HealthOf(&service, "") == kServing; });
  EXPECT_TRUE(service.Call(&Api::Complete, Complete("open", token)).status.ok());
}

TEST(LifecycleTest, ReflectionTellsTheServices) {
  ServiceFixture service;
  grpc::GenericStub stub(service.NewChannel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto next = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto stream = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  stream->StartCall(nullptr);
  ASSERT_TRUE(next());
  // ServerReflectionRequest { string list_services = 7; }
  const grpc::Slice slice(std::string("\x3a\x01*"));
  stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer response;
  stream->Read(&response, nullptr);
  ASSERT_TRUE(next());
  grpc::Slice answer;
  ASSERT_TRUE(response.DumpToSingleSlice(&answer).ok());
  const std::string text(reinterpret_cast<const char*>(answer.begin()), answer.size());
  EXPECT_NE(text.find("idempotency.v1.IdempotencyService"), std::string::npos);
  EXPECT_NE(text.find("idempotency.v1.IdempotencyAdminService"), std::string::npos);
  context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  next();
}

TEST(LifecycleTest, ACancelledCompleteIsApplied) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  const uint64_t token = Acquire(&service, "k");
  controls.Hold();
  AsyncCall call;
  const v1::CompleteRequest request = Complete("k", token, "the answer");
  v1::CompleteResponse response;
  service.api()->async()->Complete(&call.context, &request, &response, call.OnDone());
  AwaitTrue([&] { return controls.held() == 1; });
  call.context.TryCancel();
  call.done.WaitForNotification();
  EXPECT_EQ(call.status.error_code(), grpc::StatusCode::CANCELLED);
  controls.LetGo();
  const auto got = service.Call(&Api::GetOperation, Get("k"));
  EXPECT_EQ(got.response.operation().state(), v1::OPERATION_STATE_COMPLETE);
  EXPECT_EQ(got.response.operation().response().body(), "the answer");
}

TEST(LifecycleTest, NothingIsShownBeforeItIsDurable) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  controls.Hold();
  AsyncCall call;
  const v1::ReserveRequest request = Reserve("k");
  v1::ReserveResponse response;
  service.api()->async()->Reserve(&call.context, &request, &response, call.OnDone());
  AwaitTrue([&] { return controls.held() == 1; });
  EXPECT_FALSE(call.done.HasBeenNotified());
  controls.LetGo();
  call.done.WaitForNotification();
  EXPECT_EQ(response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
}

TEST(LifecycleTest, AStoppingServiceAnswersWaitersAndFinishesWhatItAccepted) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  Acquire(&service, "held");
  const uint64_t token = Acquire(&service, "mine");
  AsyncCall waiting;
  const v1::ReserveRequest reserve = WaitingReserve("held", "2", seconds(20));
  v1::ReserveResponse reserved;
  service.api()->async()->Reserve(&waiting.context, &reserve, &reserved, waiting.OnDone());
  AwaitTrue([&] { return service.server()->store()->waiters() == 1; });
  controls.Hold();
  AsyncCall finishing;
  const v1::CompleteRequest complete = Complete("mine", token);
  v1::CompleteResponse completed;
  service.api()->async()->Complete(&finishing.context, &complete, &completed, finishing.OnDone());
  AwaitTrue([&] { return controls.held() == 1; });

  std::thread draining([&] { service.server()->Drain(); });
  // Health says so first of all; the connection of this probe is still served.
  AwaitTrue([&] { return HealthOf(&service, "") == kNotServing; });
  // Nothing new is taken on. One that came just before would wait for what is held: it gives up.
  AwaitTrue([&] {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_from_millis(200, GPR_TIMESPAN));
    v1::ReserveResponse response;
    const grpc::Status status = service.api()->Reserve(&context, Reserve("new"), &response);
    return ReadResult(status, context, response).reason == "STORE_UNAVAILABLE";
  });
  controls.LetGo();
  draining.join();
  waiting.done.WaitForNotification();
  finishing.done.WaitForNotification();
  EXPECT_TRUE(waiting.status.ok()) << waiting.status.error_message();
  EXPECT_EQ(reserved.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  EXPECT_TRUE(finishing.status.ok()) << finishing.status.error_message();
  EXPECT_EQ(completed.operation().state(), v1::OPERATION_STATE_COMPLETE);
}

TEST(LifecycleTest, AReloadChangesWhatHolds) {
  ServiceFixture service({.config = "namespaces: [{name: payments, default_lease_duration: 10s}]"});
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("a")).response.lease().remaining().seconds(), 10);
  ASSERT_TRUE(
      service.Reconfigure("namespaces: [{name: payments, default_lease_duration: 20s}]").ok());
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("b")).response.lease().remaining().seconds(), 20);
  EXPECT_FALSE(service.Reconfigure("namespaces: 7").ok());
  EXPECT_EQ(service.Call(&Api::Reserve, Reserve("c")).response.lease().remaining().seconds(), 20);
}

TEST(LifecycleTest, ASecondServerOnThePortIsRefused) {
  ServiceFixture service;
  ServiceFixture other;
  service::ServerParts parts;
  EngineControls controls;
  parts.engine = MakeTestEngine(&controls);
  parts.clock = service.clock();
  parts.config = service.config();
  service::Log log({service::LogLevel::kError});
  service::CountingMetrics metrics;
  parts.log = &log;
  parts.metrics = &metrics;
  service::ServerOptions options;
  options.listen = "127.0.0.1:" + std::to_string(service.server()->port());
  const auto second = service::Server::Start(std::move(parts), options);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("--listen"), std::string::npos);
}

TEST(LifecycleTest, AFullLogSinkHoldsUpNobody) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  {
    ServiceFixture service({.log_fd = ends[1], .log_level = service::LogLevel::kDebug});
    // Far more lines than the pipe takes, and nobody reads.
    v1::BatchRequest batch;
    for (int i = 0; i < 1000; ++i) {
      *batch.add_commands()->mutable_reserve() = Reserve("k" + std::to_string(i));
    }
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(service.Call(&Api::Batch, batch).status.ok());
    EXPECT_TRUE(service.Call(&Api::GetOperation, Get("k1")).status.ok());
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace idempotency::testing
