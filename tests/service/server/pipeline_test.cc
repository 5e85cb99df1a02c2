// Pipeline: many commands in flight on one stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "service/front/pipeline_call.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/pipeline_client.h"
#include "tests/service/server/test_engine.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

v1::Command Tagged(uint64_t tag, v1::Command command) {
  command.set_tag(tag);
  return command;
}

uint64_t Acquire(ServiceFixture* service, const std::string& key) {
  return service->Call(&Api::Reserve, v1::ReserveRequest(Reserve(key)))
      .response.lease()
      .fencing_token();
}

void AwaitWaiters(ServiceFixture* service, size_t count) {
  AwaitTrue([&] { return service->server()->store()->waiters() == count; });
}

TEST(PipelineTest, AnswersByTag) {
  ServiceFixture service;
  PipelineClient client(&service);
  client.Send({Tagged(70, Command(Reserve("a"))), Tagged(5, Command(Reserve("b")))});
  client.Send({Tagged(6, Command(Reserve("a", "2")))});
  const auto results = client.AwaitByTag(3);
  EXPECT_EQ(results.at(70).reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(results.at(5).reserve().operation().id().key(), "b");
  EXPECT_EQ(results.at(6).reserve().outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  EXPECT_TRUE(client.Close().status.ok());
}

TEST(PipelineTest, AnswersAMessageByAMessage) {
  ServiceFixture service;
  PipelineClient client(&service);
  // What is not committed at once is not answered at once.
  const size_t count = std::min<size_t>(100, service.traits().max_batch_writes);
  std::vector<v1::Command> commands;
  for (size_t i = 0; i < count; ++i) commands.push_back(Command(Reserve("k" + std::to_string(i))));
  client.Send(commands);
  client.Await(count);
  EXPECT_EQ(client.messages(), 1u);
}

TEST(PipelineTest, AppliesCommandsOnOneKeyInTheOrderSent) {
  ServiceFixture service(
      {.in_memory_because = "tokens can be foretold there alone: from 1 on, one a Reserve"});
  PipelineClient client(&service);
  // Each is answered as it must be only if all before it were applied.
  for (uint64_t round = 0; round < 50; ++round) {
    const std::string attempt = std::to_string(round);
    client.Send({Command(Reserve("k", attempt)), Command(Release("k", round + 1))});
  }
  const auto results = client.AwaitByTag(100);
  for (uint64_t round = 0; round < 50; ++round) {
    EXPECT_EQ(results.at(2 * round + 1).reserve().lease().fencing_token(), round + 1);
    EXPECT_EQ(results.at(2 * round + 2).release().state(), v1::OPERATION_STATE_FREED);
  }
}

TEST(PipelineTest, AppliesWhatAnOwnerSendsInTheOrderSent) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "k");
  PipelineClient client(&service);
  const auto name_of = [](uint64_t round) { return "run-" + std::to_string(round); };
  for (uint64_t round = 0; round < 50; ++round) {
    v1::RenewRequest renew = Renew("k", token);
    renew.mutable_owner()->set_operation_ref(name_of(round));
    client.Send({Command(renew), Command(Get("k"))});
  }
  const auto results = client.AwaitByTag(100);
  for (uint64_t round = 0; round < 50; ++round) {
    const v1::Operation& read = results.at(2 * round + 2).get_operation().operation();
    EXPECT_EQ(read.owner().operation_ref(), name_of(round));
  }
}

// It is the stream's own thread that makes the commit of the first.
TEST(PipelineTest, MessagesAreReadWhileTheCommandsOfTheFirstAreCommitted) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  PipelineClient client(&service);
  controls.Block();
  for (const char* key : {"a", "b", "c", "d"}) client.Send({Command(Reserve(key))});
  AwaitTrue([&] { return service.server()->store()->queued() == 3; });
  controls.Unblock();
  EXPECT_EQ(client.Await(4).size(), 4u);
}

TEST(PipelineTest, AWaitingCommandBlocksNoOther) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "held");
  PipelineClient client(&service);
  client.Send({Tagged(1, Command(WaitingReserve("held", "2", seconds(20)))),
               Tagged(2, Command(Reserve("free")))});
  EXPECT_EQ(client.AwaitByTag(1).at(2).reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  client.Send({Tagged(3, Command(Reserve("also free")))});
  EXPECT_EQ(client.AwaitByTag(2).at(3).reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  client.Send({Tagged(4, Command(Complete("held", token)))});
  EXPECT_EQ(client.AwaitByTag(4).at(1).reserve().outcome(), v1::RESERVE_OUTCOME_COMPLETED);
}

TEST(PipelineTest, MoreWaitsThanMayBeInFlightBlockNoOther) {
  constexpr size_t kWaits = service::kMaxPipelinedCommands + 4;
  constexpr size_t kOver = 3;  // the key store's own bound for them
  ServiceFixture service(
      {.config = "unlisted_namespaces: ALLOW\nlimits: {max_waiters: " + std::to_string(kWaits) +
                 ", max_waiters_per_key: " + std::to_string(kWaits) + "}"});
  const uint64_t token = Acquire(&service, "held");
  PipelineClient client(&service);
  for (size_t sent = 0; sent < kWaits + kOver;) {
    std::vector<v1::Command> waits;
    for (; waits.size() < 1000 && sent < kWaits + kOver; ++sent) {
      waits.push_back(Command(WaitingReserve("held", std::to_string(10'000 + sent), seconds(20))));
    }
    client.Send(waits);
  }
  for (const v1::Result& over : client.Await(kOver)) {
    EXPECT_EQ(over.reserve().outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  }
  AwaitWaiters(&service, kWaits);
  client.Send({Tagged(1'000'000, Command(Reserve("free")))});
  EXPECT_EQ(client.AwaitByTag(kOver + 1).at(1'000'000).reserve().outcome(),
            v1::RESERVE_OUTCOME_ACQUIRED);
  client.Send({Tagged(1'000'001, Command(Complete("held", token)))});
  EXPECT_EQ(client.Await(kWaits + kOver + 2).back().error().code(), 0);
}

TEST(PipelineTest, RefusesATagThatIsInFlight) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "held");
  PipelineClient client(&service);
  client.Send({Tagged(1, Command(WaitingReserve("held", "2", seconds(20))))});
  AwaitWaiters(&service, 1);
  client.Send({Tagged(1, Command(Reserve("other")))});
  const auto refused = client.Await(1);
  EXPECT_EQ(refused[0].error().reason(), v1::ERROR_REASON_INVALID_FIELD);
  EXPECT_EQ(refused[0].error().field(), "tag");
  service.Call(&Api::Complete, Complete("held", token));
  EXPECT_EQ(client.Await(2)[1].reserve().outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  // By now the tag is free again.
  client.Send({Tagged(1, Command(Reserve("other")))});
  EXPECT_EQ(client.Await(3)[2].reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
}

TEST(PipelineTest, RefusesATagThatIsTwiceInAMessage) {
  ServiceFixture service;
  PipelineClient client(&service);
  client.Send({Tagged(1, Command(Reserve("a"))), Tagged(1, Command(Reserve("b"))),
               Tagged(2, Command(Reserve("c")))});
  std::map<uint64_t, std::vector<v1::Result>> by_tag;
  for (const v1::Result& result : client.Await(3)) by_tag[result.tag()].push_back(result);
  ASSERT_EQ(by_tag[1].size(), 2u);
  const int refused = by_tag[1][0].has_error() ? 0 : 1;
  EXPECT_EQ(by_tag[1][refused].error().field(), "tag");
  EXPECT_EQ(by_tag[1][1 - refused].reserve().operation().id().key(), "a");
  EXPECT_EQ(by_tag[2][0].reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
}

TEST(PipelineTest, ATagThatWasRefusedIsNotInFlight) {
  ServiceFixture service;
  PipelineClient client(&service);
  client.Send({Tagged(1, Command(Reserve(""))), Tagged(1, Command(Reserve("a")))});
  int acquired = 0;
  for (const v1::Result& result : client.Await(2)) {
    if (result.has_error()) EXPECT_EQ(result.error().field(), "id.key");
    acquired += result.reserve().outcome() == v1::RESERVE_OUTCOME_ACQUIRED ? 1 : 0;
  }
  EXPECT_EQ(acquired, 1);
}

TEST(PipelineTest, ATagIsFreeAsSoonAsItsAnswerIsThere) {
  ServiceFixture service;
  PipelineClient client(&service);
  for (size_t round = 1; round <= 200; ++round) {
    const std::string key = "k" + std::to_string(round);
    client.Send({Tagged(1, Command(Reserve(key))), Tagged(2, Command(Get(key)))});
    for (const v1::Result& result : client.Await(2 * round)) {
      ASSERT_FALSE(result.has_error()) << round << ": " << result.ShortDebugString();
    }
  }
}

TEST(PipelineTest, AClosedStreamIsAnsweredToTheEnd) {
  ServiceFixture service;
  const uint64_t token = Acquire(&service, "held");
  PipelineClient client(&service);
  client.Send({Command(WaitingReserve("held", "2", seconds(20)))});
  AwaitWaiters(&service, 1);
  std::thread closing([&] { EXPECT_TRUE(client.Close().status.ok()); });
  service.Call(&Api::Complete, Complete("held", token));
  closing.join();
  EXPECT_EQ(client.Await(1)[0].reserve().outcome(), v1::RESERVE_OUTCOME_COMPLETED);
}

TEST(PipelineTest, ACancelledStreamLetsWaitersGoAndAppliesTheRest) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  Acquire(&service, "held");
  const uint64_t token = Acquire(&service, "mine");
  PipelineClient client(&service);
  client.Send({Command(WaitingReserve("held", "2", seconds(20)))});
  AwaitWaiters(&service, 1);
  controls.Hold();
  client.Send({Command(Complete("mine", token, "the answer"))});
  AwaitTrue([&] { return controls.held() == 1; });
  client.Cancel();
  EXPECT_EQ(client.AwaitEnd().status.error_code(), grpc::StatusCode::CANCELLED);
  controls.LetGo();
  AwaitWaiters(&service, 0);
  const auto got = service.Call(&Api::GetOperation, Get("mine"));
  EXPECT_EQ(got.response.operation().state(), v1::OPERATION_STATE_COMPLETE);
}

TEST(PipelineTest, AMessageWithTooManyCommandsEndsTheStream) {
  ServiceFixture service;
  PipelineClient client(&service);
  client.Send({Tagged(1, Command(Reserve("a")))});
  client.Await(1);
  std::vector<v1::Command> commands(1025, Command(Get("a")));
  client.Send(commands);
  const auto end = client.AwaitEnd();
  EXPECT_EQ(end.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(end.reason, "INVALID_FIELD");
  EXPECT_EQ(end.Find<google::rpc::BadRequest>().field_violations(0).field(), "commands");
}

TEST(PipelineTest, AThousandAndTwentyFourCommandsAreTaken) {
  ServiceFixture service;
  PipelineClient client(&service);
  std::vector<v1::Command> commands;
  for (int i = 0; i < 1024; ++i) commands.push_back(Command(Reserve("k" + std::to_string(i))));
  client.Send(commands);
  for (const v1::Result& result : client.Await(1024)) {
    EXPECT_EQ(result.reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  }
}

TEST(PipelineTest, CarriesMoreThanMayBeInFlight) {
  ServiceFixture service;
  PipelineClient client(&service);
  constexpr size_t kMessages = 20;
  for (size_t m = 0; m < kMessages; ++m) {
    std::vector<v1::Command> commands;
    for (int i = 0; i < 1000; ++i) commands.push_back(Command(Get("k" + std::to_string(i))));
    client.Send(commands);
  }
  const auto results = client.AwaitByTag(kMessages * 1000);
  EXPECT_EQ(results.size(), kMessages * 1000);
  EXPECT_TRUE(client.Close().status.ok());
}

TEST(PipelineTest, ReadsNoMoreWhileTooMuchIsInFlight) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  controls.Hold();
  PipelineClient client(&service);
  constexpr size_t kCommands = 5000;
  for (size_t sent = 0; sent < kCommands;) {
    std::vector<v1::Command> commands;
    for (; commands.size() < 1000; ++sent) {
      commands.push_back(Command(Reserve("k" + std::to_string(sent))));
    }
    client.Send(commands);
  }
  AwaitTrue([&] { return controls.held() > 0; });
  // It would be refused as soon as it is read, whatever the store does.
  client.Send({Tagged(1'000'000, Command(Reserve("")))});
  v1::GetNamespaceRequest request;
  request.set_name("payments");
  for (int i = 0; i < 100; ++i) service.Call(&Api::GetNamespace, request);
  EXPECT_EQ(client.messages(), 0u);
  controls.LetGo();
  const auto results = client.AwaitByTag(kCommands + 1);
  EXPECT_EQ(results.at(1'000'000).error().field(), "id.key");
  EXPECT_TRUE(client.Close().status.ok());
}

TEST(PipelineTest, ReadsNoMoreWhileManyLargeReportsAreInFlight) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  constexpr size_t kBody = size_t{1024} * 1024;
  constexpr size_t kReports = service::kMaxPipelineRequestBytes / kBody;
  std::vector<uint64_t> tokens;
  for (size_t i = 0; i < kReports; ++i) {
    tokens.push_back(Acquire(&service, "k" + std::to_string(i)));
  }
  controls.Hold();
  PipelineClient client(&service);
  for (size_t i = 0; i < kReports; ++i) {
    client.Send({Command(Complete("k" + std::to_string(i), tokens[i], std::string(kBody, 'b')))});
  }
  AwaitTrue([&] { return controls.held() > 0; });
  // It would be refused as soon as it is read, whatever the store does.
  client.Send({Tagged(1'000'000, Command(Reserve("")))});
  v1::GetNamespaceRequest request;
  request.set_name("payments");
  for (int i = 0; i < 100; ++i) service.Call(&Api::GetNamespace, request);
  EXPECT_EQ(client.messages(), 0u);
  controls.LetGo();
  const auto results = client.AwaitByTag(kReports + 1);
  EXPECT_EQ(results.at(1'000'000).error().field(), "id.key");
  EXPECT_TRUE(client.Close().status.ok());
}

TEST(PipelineTest, AClientThatTakesNoLargeAnswersDoesNotFillTheMemory) {
  EngineControls controls;
  ServiceFixture service({.engine = [&] { return MakeTestEngine(&controls); }});
  const std::string body(size_t{1024} * 1024, 'b');
  service.Call(&Api::Complete, Complete("k", Acquire(&service, "k"), body));
  grpc::ClientContext context;
  const auto stream = service.api()->Pipeline(&context);
  // The first is held back, and all that are read with it.
  controls.Hold();
  constexpr uint64_t kReads = 100;
  v1::PipelineRequest request;
  *request.add_commands() = Tagged(1, Command(Reserve("new")));
  for (uint64_t i = 0; i < kReads; ++i) {
    *request.add_commands() = Tagged(i + 2, Command(Get("k")));
  }
  ASSERT_TRUE(stream->Write(request));
  AwaitTrue([&] { return controls.held() == 1; });
  controls.LetGo();
  // All have been answered by now, and nothing was taken yet.
  ASSERT_TRUE(stream->WritesDone());
  size_t shown_bytes = 0;
  size_t refused = 0;
  v1::PipelineResponse response;
  while (stream->Read(&response)) {
    EXPECT_LE(response.ByteSizeLong(), size_t{4} * 1024 * 1024);
    for (const v1::Result& result : response.results()) {
      if (result.tag() == 1) {
        EXPECT_EQ(result.reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
      } else if (result.has_error()) {
        EXPECT_EQ(result.error().reason(), v1::ERROR_REASON_OVERLOADED);
        ++refused;
      } else {
        shown_bytes += result.get_operation().operation().response().body().size();
      }
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  // A message or two were on their way.
  EXPECT_LE(shown_bytes, service::kMaxPipelineHeldBytes + size_t{8} * 1024 * 1024);
  EXPECT_EQ(shown_bytes, (kReads - refused) * body.size());
}

TEST(PipelineTest, LargeAnswersComeInSeveralMessages) {
  ServiceFixture service;
  const std::string body(size_t{1024} * 1024, 'b');
  service.Call(&Api::Complete, Complete("k", Acquire(&service, "k"), body));
  PipelineClient client(&service);
  client.Send(std::vector<v1::Command>(30, Command(Get("k"))));
  // All of them arrive, within a client's default limit of 4 MiB.
  for (const v1::Result& result : client.Await(30)) {
    EXPECT_EQ(result.get_operation().operation().response().body().size(), body.size());
  }
  EXPECT_TRUE(client.Close().status.ok());
}

TEST(PipelineTest, EndsWhenTheServiceStops) {
  ServiceFixture service;
  Acquire(&service, "held");
  PipelineClient idle(&service);
  PipelineClient waiting(&service);
  idle.Send({Command(Reserve("a"))});
  idle.Await(1);
  waiting.Send({Command(WaitingReserve("held", "2", seconds(20)))});
  AwaitWaiters(&service, 1);
  service.server()->Drain();
  // The waiter is told what holds, and both streams where to turn.
  EXPECT_EQ(waiting.Await(1)[0].reserve().outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  for (PipelineClient* client : {&idle, &waiting}) {
    const auto end = client->AwaitEnd();
    EXPECT_EQ(end.status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(end.reason, "STORE_UNAVAILABLE");
  }
}

TEST(PipelineTest, AClientThatKeepsSendingWhileTheServiceStopsBreaksNothing) {
  for (int round = 0; round < 10; ++round) {
    ServiceFixture service;
    PipelineClient client(&service);
    std::atomic<bool> stopped{false};
    std::thread sending([&] {
      // Long to read and quick to refuse: the end comes while one is read.
      const v1::Command refused = Command(Complete("", 1, std::string(size_t{4} << 20, 'b')));
      while (!stopped) client.Send({refused});
    });
    client.Await(3);
    service.server()->Drain();
    EXPECT_EQ(client.AwaitEnd().status.error_code(), grpc::StatusCode::UNAVAILABLE) << round;
    stopped = true;
    sending.join();
  }
}

}  // namespace
}  // namespace idempotency::testing
