// Many Runs of few keys on the real service, over a network that loses, repeats, delays and cuts:
// one effect for each key, and nothing left open.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "tests/client/run/flaky_connection.h"
#include "tests/support/flaky_proxy.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""s;

constexpr int kRuns = 1000;
constexpr size_t kKeys = 100;

class StormTest : public ::testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<FlakyConnection> Connect(const FlakyProxy& proxy, uint64_t seed) {
    return std::make_shared<FlakyConnection>(
        MakeConnection({.target = proxy.target(), .batching = GetParam()}), seed);
  }

  // One of the Runs, on key number `key`.
  RunResult RunOne(const Client& client, size_t key) {
    const std::string name = "order-" + std::to_string(key);
    const RunRequest request{.id = {"payments", "acct", name},
                             .fingerprint = FingerprintBytes("POST", "/v1/charges", name),
                             .wait = 120s};
    const RunOptions options{.classify = ClassifyHttp, .retry = RetryPolicy::UpTo(120s)};
    const EffectFunction charge = [&](Attempt&) {
      ++effects_[key];
      return EffectResult::Answered(
          {.status = CachedResponse::HttpStatus{200}, .body = "charged " + name});
    };
    return client.Run(request, charge, options);
  }

  int Count(const std::vector<v1::OperationState>& states) {
    v1::ListOperationsRequest request;
    request.set_namespace_("payments");
    request.set_page_size(1000);
    for (const v1::OperationState state : states) request.add_states(state);
    return service_.Call(&AdminApi::ListOperations, request).response.operations_size();
  }

  ServiceFixture service_;
  std::array<std::atomic<int>, kKeys> effects_{};
};

TEST_P(StormTest, OneEffectAKeyAndNothingPending) {
  constexpr uint64_t kSeed = 20260101;
  FlakyProxy proxy(service_.server()->port(),
                   {.seed = kSeed, .cut_after_bytes = 60'000, .delayed = 0.1});
  const std::shared_ptr<FlakyConnection> connection = Connect(proxy, kSeed);
  const Client client(connection);
  std::vector<std::thread> runs;
  for (int i = 0; i < kRuns; ++i) {
    runs.emplace_back([this, &client, i] {
      const size_t key = static_cast<size_t>(i) % kKeys;
      const RunResult result = RunOne(client, key);
      EXPECT_TRUE(result.has_answer()) << Name(result.stop) << ": " << result.detail;
      EXPECT_EQ(result.response->body, "charged order-" + std::to_string(key));
      EXPECT_FALSE(result.record_open) << result.detail;
    });
  }
  for (std::thread& run : runs) run.join();
  proxy.CalmDown();
  connection->DeliverLate();

  for (size_t key = 0; key < kKeys; ++key) EXPECT_EQ(effects_[key], 1) << "key " << key;
  EXPECT_EQ(Count({v1::OPERATION_STATE_PENDING, v1::OPERATION_STATE_UNRESOLVED}), 0);
  EXPECT_EQ(Count({v1::OPERATION_STATE_COMPLETE}), static_cast<int>(kKeys));
  // All runs on one stream are through after few of them.
  EXPECT_GE(proxy.cuts(), 5) << "it was no storm";
}

INSTANTIATE_TEST_SUITE_P(Modes, StormTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Batching" : "Single"; });

}  // namespace
}  // namespace idempotency::testing
