#include "idempotency/testing/in_process_connection.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/src/testing/ledger.h"

namespace idempotency::testing {
namespace {

// How often a call that waits looks at the clock, in real time.
constexpr Duration kLook = std::chrono::milliseconds(2);
// The answer needs this long to arrive in time.
constexpr Duration kAnswerMargin = std::chrono::milliseconds(100);

bool IsOpen(const ReserveResponse& response) {
  return response.outcome == ReserveOutcome::kInProgress;
}
bool IsOpen(const GetOperationResponse& response) {
  return response.operation.state == OperationState::kPending;
}

}  // namespace

NamespacePolicy NamespacePolicy::RetrySameKey(Duration protection_window, uint32_t max_attempts) {
  NamespacePolicy policy;
  policy.unknown_outcome = UnknownOutcome::kRetrySameKey;
  policy.protection_window = protection_window;
  policy.max_attempts = max_attempts;
  return policy;
}

NamespacePolicy NamespacePolicy::WebhookInbox() {
  NamespacePolicy policy;
  policy.fingerprint_optional = true;
  policy.unknown_outcome = UnknownOutcome::kRerun;
  policy.retention = std::chrono::hours(24 * 30);
  return policy;
}

NamespacePolicy NamespacePolicy::ActiveRun() {
  NamespacePolicy policy;
  policy.unknown_outcome = UnknownOutcome::kRerun;
  policy.retention = Duration(0);
  policy.default_lease = std::chrono::minutes(15);
  policy.max_lease = std::chrono::hours(24 * 30);
  policy.max_hold = std::chrono::hours(24 * 30);
  return policy;
}

struct InProcessConnection::State {
  explicit State(NamespacePolicies namespaces) : ledger(std::move(namespaces)) {}

  absl::Mutex mutex;
  absl::CondVar changed;
  Ledger ledger ABSL_GUARDED_BY(mutex);
  size_t waiting ABSL_GUARDED_BY(mutex) = 0;

  // One verb that does not wait.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Do(absl::StatusOr<Response> (Ledger::*verb)(const Request&, SystemTime),
                              const Request& request, Environment& environment) {
    absl::MutexLock lock(&mutex);
    changed.SignalAll();
    return (ledger.*verb)(request, environment.WallNow());
  }

  // One verb that waits while the operation is somebody's.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Await(absl::StatusOr<Response> (Ledger::*verb)(const Request&,
                                                                          SystemTime),
                                 const Request& request, const CallOptions& options,
                                 Environment& environment) {
    absl::MutexLock lock(&mutex);
    const SystemTime start = environment.WallNow();
    Duration patience = options.timeout - kAnswerMargin;
    const SystemTime end =
        start + std::min({request.wait_duration, ledger.MaxWait(request.id), patience});
    for (;;) {
      absl::StatusOr<Response> response = (ledger.*verb)(request, environment.WallNow());
      const bool waits = response.ok() && IsOpen(*response) && environment.WallNow() < end;
      if (!waits || patience <= Duration(0)) {
        changed.SignalAll();
        return response;
      }
      if (options.stop.stop_requested()) return absl::CancelledError("stopped by the caller");
      ++waiting;
      const bool timed_out = changed.WaitWithTimeout(&mutex, absl::Milliseconds(kLook.count()));
      --waiting;
      if (timed_out) patience -= kLook;
    }
  }
};

InProcessConnection::InProcessConnection(std::shared_ptr<Environment> environment,
                                         NamespacePolicies namespaces)
    : environment_(std::move(environment)),
      state_(std::make_unique<State>(std::move(namespaces))) {}

InProcessConnection::~InProcessConnection() = default;

std::optional<Operation> InProcessConnection::Find(const OperationId& id) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->ledger.Find(id, environment_->WallNow());
}

std::vector<Operation> InProcessConnection::All() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->ledger.All(environment_->WallNow());
}

size_t InProcessConnection::waiting() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->waiting;
}

absl::StatusOr<ReserveResponse> InProcessConnection::Reserve(const ReserveRequest& request,
                                                             const CallOptions& options) {
  return state_->Await(&Ledger::Reserve, request, options, *environment_);
}

absl::StatusOr<RenewResponse> InProcessConnection::Renew(const RenewRequest& request,
                                                         const CallOptions& /*options*/) {
  return state_->Do(&Ledger::Renew, request, *environment_);
}

absl::StatusOr<CompleteResponse> InProcessConnection::Complete(const CompleteRequest& request,
                                                               const CallOptions& /*options*/) {
  return state_->Do(&Ledger::Complete, request, *environment_);
}

absl::StatusOr<ReleaseResponse> InProcessConnection::Release(const ReleaseRequest& request,
                                                             const CallOptions& /*options*/) {
  return state_->Do(&Ledger::Release, request, *environment_);
}

absl::StatusOr<MarkUnresolvedResponse> InProcessConnection::MarkUnresolved(
    const MarkUnresolvedRequest& request, const CallOptions& /*options*/) {
  return state_->Do(&Ledger::MarkUnresolved, request, *environment_);
}

absl::StatusOr<GetOperationResponse> InProcessConnection::GetOperation(
    const GetOperationRequest& request, const CallOptions& options) {
  return state_->Await(&Ledger::Get, request, options, *environment_);
}

absl::StatusOr<Operation> InProcessConnection::Resolve(const ResolveRequest& request,
                                                       const CallOptions& /*options*/) {
  return state_->Do(&Ledger::Resolve, request, *environment_);
}

absl::StatusOr<ListOperationsResponse> InProcessConnection::ListOperations(
    const ListOperationsRequest& request, const CallOptions& /*options*/) {
  return state_->Do(&Ledger::List, request, *environment_);
}

void InProcessConnection::AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) {
  std::move(done)(Renew(request, options));
}

}  // namespace idempotency::testing
