// A connection over which calls get lost, are answered in vain, happen twice, and happen once more
// much later: what a network with queues and retries in it can do, by a seeded script.
#ifndef IDEMPOTENCY_TESTS_CLIENT_RUN_FLAKY_CONNECTION_H_
#define IDEMPOTENCY_TESTS_CLIENT_RUN_FLAKY_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/connection.h"

namespace idempotency::testing {

struct FlakyOdds {
  double request_lost = 0.05;
  double answer_lost = 0.1;
  double twice = 0.1;
  double again_later = 0.1;
};

// Thread safety: as Connection.
class FlakyConnection : public Connection {
 public:
  FlakyConnection(std::shared_ptr<Connection> good, uint64_t seed, FlakyOdds odds = {})
      : good_(std::move(good)), odds_(odds), random_(seed) {}

  // What was to happen later happens now.
  void DeliverLate() {
    std::vector<std::function<void()>> late;
    {
      absl::MutexLock lock(&mutex_);
      late.swap(late_);
    }
    for (const auto& call : late) call();
  }

  absl::StatusOr<ReserveResponse> Reserve(const ReserveRequest& request,
                                          const CallOptions& options) override {
    return Call(&Connection::Reserve, request, options);
  }
  absl::StatusOr<RenewResponse> Renew(const RenewRequest& request,
                                      const CallOptions& options) override {
    return Call(&Connection::Renew, request, options);
  }
  absl::StatusOr<CompleteResponse> Complete(const CompleteRequest& request,
                                            const CallOptions& options) override {
    return Call(&Connection::Complete, request, options);
  }
  absl::StatusOr<ReleaseResponse> Release(const ReleaseRequest& request,
                                          const CallOptions& options) override {
    return Call(&Connection::Release, request, options);
  }
  absl::StatusOr<MarkUnresolvedResponse> MarkUnresolved(const MarkUnresolvedRequest& request,
                                                        const CallOptions& options) override {
    return Call(&Connection::MarkUnresolved, request, options);
  }
  absl::StatusOr<GetOperationResponse> GetOperation(const GetOperationRequest& request,
                                                    const CallOptions& options) override {
    return Call(&Connection::GetOperation, request, options);
  }
  absl::StatusOr<Operation> Resolve(const ResolveRequest& request,
                                    const CallOptions& options) override {
    return Call(&Connection::Resolve, request, options);
  }
  absl::StatusOr<ListOperationsResponse> ListOperations(const ListOperationsRequest& request,
                                                        const CallOptions& options) override {
    return Call(&Connection::ListOperations, request, options);
  }
  void AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) override {
    if (Roll(odds_.request_lost)) return std::move(done)(Lost());
    const bool in_vain = Roll(odds_.answer_lost);
    good_->AsyncRenew(
        std::move(request), options,
        [in_vain, done = std::move(done)](absl::StatusOr<RenewResponse> response) mutable {
          if (in_vain) response = Lost();
          std::move(done)(std::move(response));
        });
  }

 private:
  static absl::Status Lost() { return absl::UnavailableError("lost by the test"); }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(absl::StatusOr<Response> (Connection::*method)(const Request&,
                                                                               const CallOptions&),
                                const Request& request, const CallOptions& options) {
    const std::function<void()> once_more = [this, method, request] {
      (void)((*good_).*method)(WithoutWait(request), CallOptions());
    };
    if (const std::function<void()> late = TakeLate()) late();
    if (Roll(odds_.again_later)) KeepForLater(once_more);
    if (Roll(odds_.request_lost)) return Lost();
    absl::StatusOr<Response> response = ((*good_).*method)(request, options);
    if (Roll(odds_.twice)) once_more();
    if (Roll(odds_.answer_lost)) return Lost();
    return response;
  }

  template <typename Request>
  static Request WithoutWait(Request request) {
    return request;
  }
  static ReserveRequest WithoutWait(ReserveRequest request) {
    request.wait_duration = Duration(0);
    return request;
  }

  bool Roll(double odds) {
    absl::MutexLock lock(&mutex_);
    return std::bernoulli_distribution(odds)(random_);
  }
  void KeepForLater(std::function<void()> call) {
    absl::MutexLock lock(&mutex_);
    late_.push_back(std::move(call));
  }
  // One of those kept, any; or none.
  std::function<void()> TakeLate() {
    absl::MutexLock lock(&mutex_);
    if (late_.empty() || std::bernoulli_distribution(0.8)(random_)) return nullptr;
    const size_t which = std::uniform_int_distribution<size_t>(0, late_.size() - 1)(random_);
    std::function<void()> call = std::move(late_[which]);
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(which));
    return call;
  }

  const std::shared_ptr<Connection> good_;
  const FlakyOdds odds_;
  absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> late_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_RUN_FLAKY_CONNECTION_H_
