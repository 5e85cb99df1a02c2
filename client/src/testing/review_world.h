// The world that a reviewed handler lives in: processes that can die, wires that lose what they
// carry, and a provider that counts.
#ifndef IDEMPOTENCY_CLIENT_SRC_TESTING_REVIEW_WORLD_H_
#define IDEMPOTENCY_CLIENT_SRC_TESTING_REVIEW_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/testing/retry_review.h"

namespace idempotency::testing {

// What becomes of one call of the provider.
enum class ProviderFault : uint8_t {
  kNone,
  kServerErrorBefore,  // 500, and nothing was done
  kServerErrorAfter,   // 500, and it was done
  kTimeoutBefore,      // no answer, and nothing was done
  kTimeoutAfter,       // no answer, and it was done
  kCrashBefore,        // the calling process dies before its call arrives
  kCrashAfter,         // ... and after it was done
};

// The provider of one scenario, for all processes.
//
// Thread safety: may be used from any thread; faults and hooks are set before they can be met.
class ProviderBook {
 public:
  struct Entry {
    std::string request;
    CachedResponse answer;
    SystemTime time;
  };

  ProviderBook(bool knows_keys, Duration remembers, std::shared_ptr<Environment> environment)
      : knows_keys_(knows_keys), remembers_(remembers), environment_(std::move(environment)) {}

  // Of the calls to come, in their order; kNone after the last.
  void Script(std::vector<ProviderFault> faults) { faults_ = std::move(faults); }
  // Called once each, on the way of the first call to the provider, and of its answer.
  std::function<void()> on_request;
  std::function<void()> on_answer;

  // `die` ends the calling process.
  EffectResult Do(const std::string& key, const std::string& request,
                  const std::function<void()>& die) ABSL_LOCKS_EXCLUDED(mutex_);
  LookUp Find(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t calls() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t effects() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of all calls, in their order.
  std::vector<std::string> keys() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  CachedResponse Apply(const std::string& key, const std::string& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool knows_keys_;
  const Duration remembers_;
  const std::shared_ptr<Environment> environment_;
  std::vector<ProviderFault> faults_;

  mutable absl::Mutex mutex_;
  std::vector<std::string> keys_ ABSL_GUARDED_BY(mutex_);
  size_t effects_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the newest of each key
};

// One process of the handler: its wires to the service and to the provider.
//
// Thread safety: may be used from any thread.
class ReviewProcess final : public Connection, public ReviewedProvider {
 public:
  ReviewProcess(std::shared_ptr<Connection> service, std::shared_ptr<Environment> environment,
                ProviderBook* provider)
      : service_(std::move(service)), environment_(std::move(environment)), provider_(provider) {}

  // From now on nothing that it does has any effect. It is told so at once, so that it does not
  // try again for long.
  void Die() ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing arrives at the service, or everything again.
  void Cut(bool cut) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next answer of the service to these arrives nowhere.
  void LoseReplies(bool of_reserve, bool of_complete) ABSL_LOCKS_EXCLUDED(mutex_);

  // It has got as far as it gets while another one is at it: it waits at the service, was
  // answered by it, called the provider, or has ended. Gives up after two seconds.
  void AwaitShown() ABSL_LOCKS_EXCLUDED(mutex_);
  void Show() ABSL_LOCKS_EXCLUDED(mutex_);
  // The longest lease that it was given.
  Duration lease() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Connection:
  absl::StatusOr<ReserveResponse> Reserve(const ReserveRequest& request,
                                          const CallOptions& options) override;
  absl::StatusOr<RenewResponse> Renew(const RenewRequest& request,
                                      const CallOptions& options) override;
  absl::StatusOr<CompleteResponse> Complete(const CompleteRequest& request,
                                            const CallOptions& options) override;
  absl::StatusOr<ReleaseResponse> Release(const ReleaseRequest& request,
                                          const CallOptions& options) override;
  absl::StatusOr<MarkUnresolvedResponse> MarkUnresolved(const MarkUnresolvedRequest& request,
                                                        const CallOptions& options) override;
  absl::StatusOr<GetOperationResponse> GetOperation(const GetOperationRequest& request,
                                                    const CallOptions& options) override;
  absl::StatusOr<Operation> Resolve(const ResolveRequest& request,
                                    const CallOptions& options) override;
  absl::StatusOr<ListOperationsResponse> ListOperations(const ListOperationsRequest& request,
                                                        const CallOptions& options) override;
  void AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) override;

  // ReviewedProvider:
  EffectResult Do(const std::string& key, const std::string& request) override;
  LookUp Find(const std::string& key) override;

 private:
  // OK: what is sent arrives.
  absl::Status Reaches() const ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename Request, typename Response>
  absl::StatusOr<Response> Pass(absl::StatusOr<Response> (Connection::*method)(const Request&,
                                                                               const CallOptions&),
                                const Request& request, const CallOptions& options) {
    if (absl::Status reaches = Reaches(); !reaches.ok()) return reaches;
    return ((*service_).*method)(request, options);
  }
  // Whether this one is to be lost; once.
  bool TakeLoss(bool ReviewProcess::*loss) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<Connection> service_;
  const std::shared_ptr<Environment> environment_;
  ProviderBook* const provider_;

  mutable absl::Mutex mutex_;
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  bool shown_ ABSL_GUARDED_BY(mutex_) = false;
  bool lose_reserve_ ABSL_GUARDED_BY(mutex_) = false;
  bool lose_complete_ ABSL_GUARDED_BY(mutex_) = false;
  Duration lease_ ABSL_GUARDED_BY(mutex_){0};
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_CLIENT_SRC_TESTING_REVIEW_WORLD_H_
