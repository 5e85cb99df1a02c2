// The service as a test double: a Connection that follows the tables of the protocol in memory,
// on a clock that the test moves. No process, no port, no store.
//
//   auto environment = std::make_shared<FakeEnvironment>();
//   auto service = std::make_shared<InProcessConnection>(
//       environment, NamespacePolicies{{"payments", NamespacePolicy::RetrySameKey(23h, 8)}});
//   idempotency::Client client(service, environment);
//   ...
//   environment->Advance(30s);  // leases end, answers expire
//   EXPECT_EQ(service->Find(id)->state, OperationState::kUnresolved);
//
// It is small and written apart from the service; a scripted test runs on both and holds them
// together (tests/client/testing). What it leaves out: who may do what, quotas and load, the look
// at keys for personal data, limits of metadata, labels and texts, history, a clock in doubt, and
// whether a page token belongs to its filter.
#ifndef IDEMPOTENCY_TESTING_IN_PROCESS_CONNECTION_H_
#define IDEMPOTENCY_TESTING_IN_PROCESS_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idempotency/connection.h"
#include "idempotency/policies.h"
#include "idempotency/types.h"

namespace idempotency::testing {

// What holds for the operations of a namespace, as the service's configuration says it; the
// defaults are the service's.
struct NamespacePolicy {
  enum class UnknownOutcome : uint8_t { kReconcileFirst, kRetrySameKey, kRerun };

  bool scope_optional = false;
  bool fingerprint_optional = false;
  Duration default_lease = std::chrono::seconds(30);
  Duration max_lease = std::chrono::hours(24);
  Duration max_hold = std::chrono::hours(24);
  Duration max_wait = std::chrono::seconds(60);
  Duration retention = std::chrono::hours(24);
  Duration max_retention = std::chrono::hours(24 * 400);
  Duration expired_memory = std::chrono::hours(24 * 30);
  UnknownOutcome unknown_outcome = UnknownOutcome::kReconcileFirst;
  // kRetrySameKey needs both.
  Duration protection_window{0};
  uint32_t max_attempts = 0;
  Duration initial_backoff = std::chrono::seconds(1);
  Duration max_backoff = std::chrono::minutes(5);
  Duration settle = std::chrono::seconds(60);
  size_t max_key_bytes = 255;
  size_t max_response_bytes = size_t{1024} * 1024;

  static NamespacePolicy RetrySameKey(Duration protection_window, uint32_t max_attempts);
  // As the presets of these names.
  static NamespacePolicy WebhookInbox();
  static NamespacePolicy ActiveRun();

  friend bool operator==(const NamespacePolicy&, const NamespacePolicy&) = default;
};

// By name. A namespace that is not there is refused with NAMESPACE_NOT_FOUND.
using NamespacePolicies = std::map<std::string, NamespacePolicy>;

// Thread safety: all methods may be called from any thread.
class InProcessConnection : public Connection {
 public:
  // The wall clock of `environment` is the clock of the service.
  InProcessConnection(std::shared_ptr<Environment> environment, NamespacePolicies namespaces);
  ~InProcessConnection() override;

  // What is known of an operation now, its answer included; nullopt: nothing.
  std::optional<Operation> Find(const OperationId& id) const;
  // All of which something is known now, by namespace, scope and key.
  std::vector<Operation> All() const;
  // How many calls wait for an operation to end.
  size_t waiting() const;

  // Connection. A call that waits ends when the operation does, when the wait is over by the
  // environment's clock, when it is stopped, or after options.timeout of real time, whatever the
  // environment's clock says; which one of several gets a key that is free again is not defined.
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
  // Calls `done` before it returns.
  void AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) override;

 private:
  struct State;
  const std::shared_ptr<Environment> environment_;
  const std::unique_ptr<State> state_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTING_IN_PROCESS_CONNECTION_H_
