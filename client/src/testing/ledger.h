// The protocol's tables in memory: what InProcessConnection answers, without locks and waiting.
// Rows and columns are those of protos/README.md; written apart from the service on purpose.
#ifndef IDEMPOTENCY_CLIENT_SRC_TESTING_LEDGER_H_
#define IDEMPOTENCY_CLIENT_SRC_TESTING_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/src/testing/ledger_entry.h"
#include "idempotency/testing/in_process_connection.h"

namespace idempotency::testing {

// Thread safety: none.
class Ledger {
 public:
  explicit Ledger(NamespacePolicies namespaces) : namespaces_(std::move(namespaces)) {}

  // Never waits: IN_PROGRESS where the service might.
  absl::StatusOr<ReserveResponse> Reserve(const ReserveRequest& request, SystemTime now);
  absl::StatusOr<RenewResponse> Renew(const RenewRequest& request, SystemTime now);
  absl::StatusOr<CompleteResponse> Complete(const CompleteRequest& request, SystemTime now);
  absl::StatusOr<ReleaseResponse> Release(const ReleaseRequest& request, SystemTime now);
  absl::StatusOr<MarkUnresolvedResponse> MarkUnresolved(const MarkUnresolvedRequest& request,
                                                        SystemTime now);
  absl::StatusOr<GetOperationResponse> Get(const GetOperationRequest& request, SystemTime now);
  absl::StatusOr<Operation> Resolve(const ResolveRequest& request, SystemTime now);

  absl::StatusOr<ListOperationsResponse> List(const ListOperationsRequest& request, SystemTime now);

  // The longest wait that its namespace allows.
  Duration MaxWait(const OperationId& id) const { return PolicyOf(id).max_wait; }
  std::optional<Operation> Find(const OperationId& id, SystemTime now);
  std::vector<Operation> All(SystemTime now);

 private:
  // The columns of the owner's verbs.
  enum class Standing : uint8_t {
    kLive,
    kLapsed,
    kMarked,
    kCompleted,
    kSettled,
    kNotExecuted,
    kReleased,
    kOlder,
  };
  // What a Reserve would be told.
  struct Advice {
    NextStep next_step = NextStep::kReconcileFirst;
    std::optional<Duration> retry_after;
  };
  using Place = std::tuple<std::string, std::string, std::string>;

  const NamespacePolicy& PolicyOf(const OperationId& id) const;
  std::vector<OperationId> Ids() const;
  // What is there now, or null.
  Entry* At(const OperationId& id, SystemTime now);

  absl::Status CheckReserve(const ReserveRequest& request, const NamespacePolicy& policy) const;
  absl::StatusOr<ReserveResponse> ReserveAbsent(const ReserveRequest& request, SystemTime now);
  absl::StatusOr<ReserveResponse> ReserveFreed(Entry& entry, const ReserveRequest& request,
                                               SystemTime now);
  ReserveResponse ReservePending(const Entry& entry, const ReserveRequest& request,
                                 SystemTime now) const;
  ReserveResponse ReserveEnded(const Entry& entry, const ReserveRequest& request,
                               SystemTime now) const;
  ReserveResponse ReserveUnresolved(Entry& entry, const ReserveRequest& request, SystemTime now);
  ReserveResponse Mismatch(const Entry& entry, const ReserveRequest& request) const;
  ReserveResponse Acquire(Entry& entry, const ReserveRequest& request, uint32_t number,
                          std::optional<SystemTime> lease_limit, SystemTime now);

  // The entry and where the owner of `token` stands, or why the verb is refused at once.
  absl::StatusOr<std::pair<Entry*, Standing>> Owned(const OperationId& id, uint64_t token,
                                                    SystemTime now);
  static Standing StandingOf(const Entry& entry, uint64_t token);
  static Advice Advise(const Entry& entry, bool reveal, const NamespacePolicy& policy,
                       SystemTime now);

  const NamespacePolicies namespaces_;
  const NamespacePolicy defaults_;
  std::map<Place, Entry> entries_;
  uint64_t last_token_ = 0;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_CLIENT_SRC_TESTING_LEDGER_H_
