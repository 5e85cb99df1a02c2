// What the test double has beyond the protocol: looking into it, waits without a clock, and clients
// on many threads.
#include "idempotency/testing/in_process_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idempotency/client.h"
#include "idempotency/testing/fake_environment.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InProcessConnectionTest : public ::testing::Test {
 protected:
  static ReserveRequest Request(const std::string& key, const std::string& attempt) {
    return ReserveRequest{.id = {"payments", "acct_1", key},
                          .fingerprint = Fingerprint{"sha256/bytes-1", std::string(32, 'f')},
                          .attempt_id = "attempt-of-the-test-" + attempt};
  }
  uint64_t Acquire(const std::string& key) {
    const auto acquired = service->Reserve(Request(key, "1"), {});
    EXPECT_TRUE(acquired.ok()) << acquired.status();
    return acquired->lease->fencing_token;
  }

  std::shared_ptr<FakeEnvironment> environment = std::make_shared<FakeEnvironment>();
  std::shared_ptr<InProcessConnection> service = std::make_shared<InProcessConnection>(
      environment, NamespacePolicies{{"payments", NamespacePolicy{}}});
};

TEST_F(InProcessConnectionTest, ShowsAllThatItKnows) {
  EXPECT_THAT(service->All(), IsEmpty());
  EXPECT_EQ(service->Find({"payments", "acct_1", "order-1"}), std::nullopt);
  const uint64_t token = Acquire("order-2");
  Acquire("order-1");
  ASSERT_TRUE(service
                  ->Complete({.id = {"payments", "acct_1", "order-2"},
                              .fencing_token = token,
                              .response = CachedResponse{.body = "answer"}},
                             {})
                  .ok());
  environment->Advance(30s);
  const std::vector<Operation> all = service->All();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].id.key, "order-1");
  EXPECT_EQ(all[0].state, OperationState::kUnresolved);
  EXPECT_EQ(all[1].state, OperationState::kComplete);
  const auto found = service->Find({"payments", "acct_1", "order-2"});
  EXPECT_EQ(found->response->body, "answer");
  EXPECT_EQ(found->fingerprint.digest, std::string(32, 'f'));
  environment->Advance(std::chrono::hours(24 * 31));
  EXPECT_THAT(service->All(), SizeIs(1)) << "what is unresolved is never forgotten";
}

// Nobody moves the clock, and nobody ends the operation.
TEST_F(InProcessConnectionTest, AWaitEndsWithTheCallsTimeout) {
  Acquire("order-1");
  ReserveRequest waiting = Request("order-1", "2");
  waiting.wait_duration = 60s;
  const auto response = service->Reserve(waiting, {.timeout = 120ms});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->outcome, ReserveOutcome::kInProgress);
  EXPECT_EQ(service->waiting(), 0u);
}

TEST_F(InProcessConnectionTest, AsyncRenewAnswersAtOnce) {
  const uint64_t token = Acquire("order-1");
  environment->Advance(10s);
  Duration left{0};
  service->AsyncRenew({.id = {"payments", "acct_1", "order-1"}, .fencing_token = token}, {},
                      [&](const absl::StatusOr<RenewResponse>& renewed) {
                        ASSERT_TRUE(renewed.ok()) << renewed.status();
                        left = renewed->lease.remaining;
                      });
  EXPECT_EQ(left, 30s);
}

TEST_F(InProcessConnectionTest, OneEffectAKeyWithManyCallers) {
  constexpr int kThreads = 8;
  constexpr int kKeys = 40;
  const Client client(service, environment);
  std::array<std::atomic<int>, kKeys> effects{};
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int key = 0; key < kKeys; ++key) {
        const RunResult result = client.Run(
            {.id = {"payments", "acct_1", std::to_string(key)},
             .fingerprint = Fingerprint{"sha256/bytes-1", std::string(32, 'f')}},
            [&](Attempt&) {
              return EffectResult::Answered(CachedResponse{.body = std::to_string(++effects[key])});
            });
        if (result.has_answer() && result.response->body == "1") ++answered;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kThreads * kKeys);
  for (const auto& count : effects) EXPECT_EQ(count, 1);
  for (const Operation& operation : service->All()) {
    EXPECT_EQ(operation.state, OperationState::kComplete) << operation.id.key;
  }
}

}  // namespace
}  // namespace idempotency::testing
