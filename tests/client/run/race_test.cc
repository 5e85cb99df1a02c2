// Many Runs at once with leases that are always about to end, renewals that are answered at any
// time (also when their Run is long over), and callers who cancel: for the sanitizers to watch.
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/client/run/run_fixture.h"

namespace idempotency::testing {
namespace {

// Grants everything for a few milliseconds, and answers renewals on a thread of its own.
class HastyService : public Connection {
 public:
  HastyService() : answering_([this] { AnswerAll(); }) {}
  ~HastyService() override {
    {
      absl::MutexLock lock(&mutex_);
      over_ = true;
    }
    answering_.join();
  }

  absl::StatusOr<ReserveResponse> Reserve(const ReserveRequest&, const CallOptions&) override {
    return Acquired(4ms);
  }
  absl::StatusOr<RenewResponse> Renew(const RenewRequest&, const CallOptions&) override {
    return RenewResponse{LeaseOf(4ms)};
  }
  absl::StatusOr<CompleteResponse> Complete(const CompleteRequest&, const CallOptions&) override {
    ++settled;
    return Done();
  }
  absl::StatusOr<ReleaseResponse> Release(const ReleaseRequest&, const CallOptions&) override {
    ++settled;
    return ReleaseResponse{OperationState::kFreed};
  }
  absl::StatusOr<MarkUnresolvedResponse> MarkUnresolved(const MarkUnresolvedRequest&,
                                                        const CallOptions&) override {
    ++settled;
    return Marked();
  }
  absl::StatusOr<GetOperationResponse> GetOperation(const GetOperationRequest&,
                                                    const CallOptions&) override {
    return Lost();
  }
  absl::StatusOr<Operation> Resolve(const ResolveRequest&, const CallOptions&) override {
    return Lost();
  }
  absl::StatusOr<ListOperationsResponse> ListOperations(const ListOperationsRequest&,
                                                        const CallOptions&) override {
    return Lost();
  }
  void AsyncRenew(RenewRequest, CallOptions, RenewDone done) override {
    absl::MutexLock lock(&mutex_);
    renewals_.push_back(std::move(done));
  }

  std::atomic<int> settled{0};

 private:
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_ || !renewals_.empty(); }
  void AnswerAll() {
    for (int answers = 0;; ++answers) {
      RenewDone done;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &HastyService::HasWork));
        if (renewals_.empty()) return;
        done = std::move(renewals_.front());
        renewals_.pop_front();
      }
      switch (answers % 3) {
        case 0:
          std::move(done)(RenewResponse{LeaseOf(4ms)});
          break;
        case 1:
          std::move(done)(Lost());
          break;
        default:
          std::move(done)(Refuse(ErrorReason::kLeaseLapsed));
          break;
      }
    }
  }

  absl::Mutex mutex_;
  std::deque<RenewDone> renewals_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread answering_;
};

// Works until it is told to stop, in one of several ways.
EffectResult WorkUntilStopped(Attempt& attempt, int way) {
  std::atomic<bool> told{false};
  const std::stop_callback on_stop(attempt.stop_token(), [&] { told = true; });
  const auto shared = std::make_shared<std::atomic<bool>>(false);
  attempt.OnStop([shared] { *shared = true; });
  while (!attempt.should_stop() && !told && !*shared) std::this_thread::yield();
  (void)attempt.remaining();
  if (way % 3 == 0) (void)attempt.SaveProgress("half way");
  return way % 2 == 0 ? Answer("charged") : EffectResult::Failed(Lost());
}

TEST(RaceTest, ManyRunsWithLeasesThatEnd) {
  constexpr int kThreads = 8;
  constexpr int kRuns = 50;
  const auto service = std::make_shared<HastyService>();
  std::optional<Client> client(service);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int run = 0; run < kRuns; ++run) {
        Cancellation cancellation;
        std::thread caller;
        const int way = thread + run;
        if (way % 4 == 0) caller = std::thread([cancellation]() mutable { cancellation.Cancel(); });
        (void)client->Run({.id = {"payments", "acct", "order"}, .wait = 0ms},
                          [&](Attempt& attempt) { return WorkUntilStopped(attempt, way); },
                          {.renew = way % 5 != 0, .cancellation = cancellation});
        if (caller.joinable()) caller.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  client.reset();
  // A Run that was cancelled before it reserved has nothing to settle.
  EXPECT_GT(service->settled, kThreads * kRuns / 2);
}

}  // namespace
}  // namespace idempotency::testing
