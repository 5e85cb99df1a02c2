// Run against the release binary: killed under load, and ten thousand times.
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "tests/support/flaky_proxy.h"
#include "tests/support/server_process.h"

// Of the address sanitizer; null without it.
extern "C" size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""s;

class ProcessTest : public ::testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Connection> Connect(const std::string& target) {
    return MakeConnection({.target = target, .batching = GetParam()});
  }

  static RunRequest RequestFor(const std::string& key) {
    return {.id = {"payments", "acct", key},
            .fingerprint = FingerprintBytes("POST", "/v1/charges", key),
            .wait = 120s};
  }
  const RunOptions options_{.classify = ClassifyHttp, .retry = RetryPolicy::UpTo(120s)};
};

EffectResult Charged() {
  return EffectResult::Answered({.status = CachedResponse::HttpStatus{200}, .body = "charged"});
}

// --- Killed under load
// -----------------------------------------------------------------------------

class KillTest : public ProcessTest {
 protected:
  static constexpr size_t kKeys = 200;
  static constexpr int kRuns = 1000;
  static constexpr int kThreads = 32;

  KillTest() : server_({"--data_dir=" + directory_.path() + "/store", "--ballast_mb=0"}) {}

  void RunAll(const Client& client) {
    for (int i = next_++; i < kRuns; i = next_++) {
      const size_t key = static_cast<size_t>(i) % kKeys;
      const auto charge = [this, key](Attempt&) {
        ++effects_[key];
        ++effects_in_all_;
        return Charged();
      };
      const RunResult result =
          client.Run(RequestFor("order-" + std::to_string(key)), charge, options_);
      EXPECT_TRUE(result.has_answer()) << Name(result.stop) << ": " << result.detail;
      EXPECT_FALSE(result.record_open) << result.detail;
    }
  }

  int Open() {
    v1::ListOperationsRequest request;
    request.set_namespace_("payments");
    request.add_states(v1::OPERATION_STATE_PENDING);
    request.add_states(v1::OPERATION_STATE_UNRESOLVED);
    v1::ListOperationsResponse response;
    grpc::ClientContext context;
    const auto stub = v1::IdempotencyAdminService::NewStub(server_.Channel());
    EXPECT_TRUE(stub->ListOperations(&context, request, &response).ok());
    return response.operations_size();
  }

  TempDirectory directory_;
  ServerProcess server_;
  std::atomic<int> next_{0};
  std::atomic<int> effects_in_all_{0};
  std::array<std::atomic<int>, kKeys> effects_{};
};

TEST_P(KillTest, OneEffectAKeyThoughTheServiceIsKilled) {
  FlakyProxy proxy(server_.port(), {});
  const Client client(Connect(proxy.target()));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&] { RunAll(client); });
  for (const int effects : {20, 80, 150}) {
    while (effects_in_all_ < effects) std::this_thread::yield();
    server_.Kill();
    server_.Start();
    proxy.SetServerPort(server_.port());
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t key = 0; key < kKeys; ++key) EXPECT_EQ(effects_[key], 1) << "key " << key;
  EXPECT_EQ(Open(), 0);
}

// --- Ten thousand times
// ----------------------------------------------------------------------------

struct Usage {
  size_t bytes = 0;
  size_t files = 0;
  size_t threads = 0;
};

size_t EntriesOf(const char* directory) {
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) {
    ++entries;
  }
  return entries;
}

Usage Measure() {
  const bool sanitized = __sanitizer_get_current_allocated_bytes != nullptr;
  return Usage{
      .bytes = sanitized ? __sanitizer_get_current_allocated_bytes() : mallinfo2().uordblks,
      .files = EntriesOf("/proc/self/fd"),
      .threads = EntriesOf("/proc/self/task")};
}

class ManyTest : public ProcessTest {
 protected:
  static constexpr int kThreads = 8;

  // With everything that an attempt can do.
  void RunOne(const Client& client, const Cancellation& cancellation, const std::string& key) {
    RunOptions options = options_;
    options.cancellation = cancellation;
    RunRequest request = RequestFor(key);
    request.dispatch_later = true;
    const auto charge = [&](Attempt& attempt) {
      attempt.OnStop([] {});
      EXPECT_TRUE(attempt.Dispatch().ok());
      absl::Notification renewed;
      client.connection().AsyncRenew({.id = request.id, .fencing_token = attempt.fencing_token()},
                                     {}, [&](const absl::StatusOr<RenewResponse>& renewal) {
                                       EXPECT_TRUE(renewal.ok()) << renewal.status();
                                       renewed.Notify();
                                     });
      renewed.WaitForNotification();
      return Charged();
    };
    EXPECT_TRUE(client.Run(request, charge, options).has_answer());
  }

  void RunMany(const Client& client, const std::string& prefix, int each) {
    const Cancellation cancellation;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < each; ++i) {
          RunOne(client, cancellation, prefix + std::to_string(thread) + "-" + std::to_string(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_P(ManyTest, TenThousandOperationsLeaveNothingBehind) {
  ServerProcess server({"--engine=memory"});
  const Client client(Connect("127.0.0.1:" + std::to_string(server.port())));
  RunMany(client, "first-", 250);
  const Usage before = Measure();
  RunMany(client, "then-", 1250);
  const Usage after = Measure();
  EXPECT_EQ(after.files, before.files);
  EXPECT_LE(after.threads, before.threads + 4) << "gRPC keeps a few more or less";
  EXPECT_LT(after.bytes, before.bytes + 1'000'000) << "a hundred bytes an operation";
}

std::string Mode(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Batching" : "Single";
}
INSTANTIATE_TEST_SUITE_P(Modes, KillTest, ::testing::Bool(), Mode);
INSTANTIATE_TEST_SUITE_P(Modes, ManyTest, ::testing::Bool(), Mode);

}  // namespace
}  // namespace idempotency::testing
