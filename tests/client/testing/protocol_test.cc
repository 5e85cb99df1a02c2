// The test double and the service itself answer the same script in the same words.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idempotency/testing/fake_environment.h"
#include "idempotency/testing/in_process_connection.h"
#include "tests/client/testing/protocol_script.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""s;

// A service of its own for each test.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::shared_ptr<Connection> connection() = 0;
  virtual void Advance(Duration span) = 0;
  // How many calls wait in it.
  virtual size_t waiting() = 0;
};

class InProcess final : public Subject {
 public:
  std::shared_ptr<Connection> connection() override { return connection_; }
  void Advance(Duration span) override { environment_->Advance(span); }
  size_t waiting() override { return connection_->waiting(); }

 private:
  std::shared_ptr<FakeEnvironment> environment_ = std::make_shared<FakeEnvironment>();
  std::shared_ptr<InProcessConnection> connection_ =
      std::make_shared<InProcessConnection>(environment_, ScriptPolicies());
};

class Service final : public Subject {
 public:
  std::shared_ptr<Connection> connection() override { return connection_; }
  void Advance(Duration span) override { service_.Advance(span); }
  size_t waiting() override { return service_.server()->store()->waiters(); }

 private:
  ServiceFixture service_{{.config = ScriptConfig()}};
  std::shared_ptr<Connection> connection_ =
      MakeConnection({.target = "127.0.0.1:" + std::to_string(service_.server()->port())});
};

struct Row {
  const char* name;
  std::unique_ptr<Subject> (*make)();
};

class ProtocolTest : public ::testing::TestWithParam<Row> {
 protected:
  std::unique_ptr<Subject> subject = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Connections, ProtocolTest,
                         ::testing::Values(Row{"InProcess",
                                               []() -> std::unique_ptr<Subject> {
                                                 return std::make_unique<InProcess>();
                                               }},
                                           Row{"Service",
                                               []() -> std::unique_ptr<Subject> {
                                                 return std::make_unique<Service>();
                                               }}),
                         [](const auto& row) { return std::string(row.param.name); });

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// REWRITE=1 writes what the service itself answers: read the difference before it is committed.
TEST_P(ProtocolTest, AnswersAsTheScriptSays) {
  const std::string path = IDEMPOTENCY_PROTOCOL_SCRIPT;
  const std::string expected = ReadFile(path);
  ASSERT_FALSE(expected.empty()) << path;
  ProtocolScript script(ScriptService{subject->connection().get(),
                                      [this](Duration span) { subject->Advance(span); }});
  const std::string actual = script.Run(expected);
  if (std::getenv("REWRITE") != nullptr && GetParam().name == std::string("Service")) {
    std::ofstream(path, std::ios::binary) << actual;
  }
  EXPECT_EQ(actual, expected);
}

// --- Lists: what is settled on the way -----------------------------------------------------------

TEST_P(ProtocolTest, SettlingWhatAPageShowsSkipsNothing) {
  const std::shared_ptr<Connection> connection = subject->connection();
  for (const char* key : {"a", "b", "c"}) {
    const ReserveRequest reserve{.id = {"plain", "scope", key},
                                 .fingerprint = Fingerprint{"sha256/bytes-1", std::string(32, 'a')},
                                 .attempt_id = std::string("attempt-of-the-test-") + key};
    ASSERT_TRUE(connection->Reserve(reserve, {}).ok());
  }
  subject->Advance(300s);
  ListOperationsRequest list{
      .name_space = "plain", .states = {OperationState::kUnresolved}, .page_size = 1};
  std::string settled;
  do {
    const auto page = connection->ListOperations(list, {});
    ASSERT_TRUE(page.ok()) << page.status();
    for (const Operation& operation : page->operations) {
      const ResolveRequest resolve{.id = operation.id,
                                   .resolution = ResolveRequest::Resolution::kNotExecuted,
                                   .actor = "somebody",
                                   .reason = "looked",
                                   .etag = operation.etag};
      EXPECT_TRUE(connection->Resolve(resolve, {}).ok());
      settled += operation.id.key;
    }
    list.page_token = page->next_page_token;
  } while (!list.page_token.empty());
  EXPECT_EQ(settled, "abc");
}

// --- Waiting: what no script of one thread can say -----------------------------------------------

ReserveRequest Waiting(const std::string& id, Duration wait) {
  return ReserveRequest{.id = {"plain", "scope", "key"},
                        .fingerprint = Fingerprint{"sha256/bytes-1", std::string(32, 'a')},
                        .attempt_id = "attempt-of-the-test-" + id,
                        .wait_duration = wait};
}

// A call in flight.
template <typename Response>
class InFlight {
 public:
  template <typename Call>
  explicit InFlight(Call call) : thread_([this, call] { response_ = call(); }) {}

  absl::StatusOr<Response> Await() {
    thread_.join();
    return response_;
  }

 private:
  absl::StatusOr<Response> response_ = absl::UnknownError("not answered");
  std::thread thread_;
};

class WaitingTest : public ProtocolTest {
 protected:
  void SetUp() override {
    const auto held = connection->Reserve(Waiting("1", 0s), {});
    ASSERT_TRUE(held.ok()) << held.status();
    token = held->lease->fencing_token;
  }

  // As long as nothing ends it.
  InFlight<ReserveResponse> Reserve(Duration wait, CallOptions options = {.timeout = 3600s}) {
    return InFlight<ReserveResponse>(
        [this, wait, options] { return connection->Reserve(Waiting("2", wait), options); });
  }
  void AwaitWaiting() {
    AwaitTrue([this] { return subject->waiting() == 1; });
  }

  std::shared_ptr<Connection> connection = subject->connection();
  const OperationId id{"plain", "scope", "key"};
  uint64_t token = 0;
};

INSTANTIATE_TEST_SUITE_P(Connections, WaitingTest,
                         ::testing::Values(Row{"InProcess",
                                               []() -> std::unique_ptr<Subject> {
                                                 return std::make_unique<InProcess>();
                                               }},
                                           Row{"Service",
                                               []() -> std::unique_ptr<Subject> {
                                                 return std::make_unique<Service>();
                                               }}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(WaitingTest, EndsWithACompletion) {
  InFlight<ReserveResponse> waiting = Reserve(60s);
  AwaitWaiting();
  ASSERT_TRUE(
      connection
          ->Complete(
              {.id = id, .fencing_token = token, .response = CachedResponse{.body = "answer"}}, {})
          .ok());
  const auto response = waiting.Await();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->outcome, ReserveOutcome::kCompleted);
  EXPECT_EQ(response->operation->response->body, "answer");
}

TEST_P(WaitingTest, EndsWithTheKey) {
  InFlight<ReserveResponse> waiting = Reserve(60s);
  AwaitWaiting();
  ASSERT_TRUE(connection->Release({.id = id, .fencing_token = token}, {}).ok());
  const auto response = waiting.Await();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->outcome, ReserveOutcome::kAcquired);
  EXPECT_GT(response->lease->fencing_token, token);
}

TEST_P(WaitingTest, EndsWithTheLease) {
  InFlight<ReserveResponse> waiting = Reserve(60s);
  AwaitWaiting();
  subject->Advance(30s);
  const auto response = waiting.Await();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->outcome, ReserveOutcome::kUnresolved);
}

TEST_P(WaitingTest, EndsWithTheWait) {
  InFlight<ReserveResponse> waiting = Reserve(5s);
  AwaitWaiting();
  subject->Advance(5s);
  const auto response = waiting.Await();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->outcome, ReserveOutcome::kInProgress);
}

TEST_P(WaitingTest, EndsWithTheCaller) {
  std::stop_source stop;
  InFlight<ReserveResponse> waiting = Reserve(60s, {.timeout = 3600s, .stop = stop.get_token()});
  AwaitWaiting();
  stop.request_stop();
  EXPECT_EQ(waiting.Await().status().code(), absl::StatusCode::kCancelled);
}

TEST_P(WaitingTest, GetWaitsForTheEnd) {
  InFlight<GetOperationResponse> waiting([this] {
    return connection->GetOperation({.id = id, .wait_duration = 60s}, {.timeout = 3600s});
  });
  AwaitWaiting();
  ASSERT_TRUE(connection->MarkUnresolved({.id = id, .fencing_token = token}, {}).ok());
  const auto response = waiting.Await();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->operation.state, OperationState::kUnresolved);
}

}  // namespace
}  // namespace idempotency::testing
