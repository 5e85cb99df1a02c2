// The calls of the service, one virtual method each: what Client is built on, and what tests
// replace (testing/mock_connection.h). MakeConnection makes the real one.
//
// Every call may be repeated: the same ids get the same answer. A status that is not OK means
// that the call may have been applied or not, unless `Refused` finds a reason in it.
//
// Thread safety: every method may be called from any thread.
#ifndef IDEMPOTENCY_CONNECTION_H_
#define IDEMPOTENCY_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "idempotency/types.h"

namespace idempotency {

// Why the service refused a call, taken from a status that a Connection returned; nullopt where
// it did not refuse (the call was lost, timed out, or never sent).
struct Refusal {
  ErrorReason reason = ErrorReason::kUnspecified;
  std::string field;
  std::optional<Duration> retry_after;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};
std::optional<Refusal> Refused(const absl::Status& status);
// A status that Refused recognises: for connections and for tests.
absl::Status MakeRefused(const Refusal& refusal, absl::StatusCode code, std::string message);

struct CallOptions {
  // How long the call may take in all. A waiting Reserve needs its wait on top.
  Duration timeout = std::chrono::seconds(10);
  // Ends the call early, with CANCELLED; whether it was applied is then unknown.
  std::stop_token stop;
};

struct ReserveRequest {
  OperationId id;
  std::optional<Fingerprint> fingerprint;
  std::string attempt_id;  // 16-64 bytes, random, for one attempt
  std::optional<Duration> lease_duration;
  Duration wait_duration{0};
  Owner owner;
  std::vector<std::pair<std::string, std::string>> labels;
  std::optional<Duration> operation_age;
  bool dispatch_later = false;
  bool start_over = false;
};

struct ReserveResponse {
  ReserveOutcome outcome = ReserveOutcome::kUnspecified;
  NextStep next_step = NextStep::kUnspecified;
  std::optional<Lease> lease;
  std::optional<Operation> operation;
  std::optional<Duration> retry_after;
  std::string detail;
};

struct RenewRequest {
  OperationId id;
  uint64_t fencing_token = 0;
  std::optional<Duration> lease_duration;
  std::optional<std::string> progress;
  bool dispatched = false;
  std::optional<Owner> owner;
};

struct RenewResponse {
  Lease lease;
};

struct CompleteRequest {
  OperationId id;
  uint64_t fencing_token = 0;
  Verdict verdict = Verdict::kSucceeded;
  std::optional<CachedResponse> response;
  std::string provider_request_id;
  std::optional<Duration> retention;
};

struct CompleteResponse {
  Operation operation;
  bool already_complete = false;
};

struct ReleaseRequest {
  OperationId id;
  uint64_t fencing_token = 0;
  std::string detail;
};

struct ReleaseResponse {
  OperationState state = OperationState::kUnspecified;
};

struct MarkUnresolvedRequest {
  OperationId id;
  uint64_t fencing_token = 0;
  UnresolvedCause cause = UnresolvedCause::kOther;
  std::string detail;
  std::string provider_request_id;
  std::optional<Duration> retry_after;
  bool reconcile_first = false;
};

struct MarkUnresolvedResponse {
  Operation operation;
  NextStep next_step = NextStep::kUnspecified;
  std::optional<Duration> retry_after;
};

struct GetOperationRequest {
  OperationId id;
  Duration wait_duration{0};
  std::optional<Fingerprint> fingerprint;
};

struct GetOperationResponse {
  Operation operation;
  NextStep next_step = NextStep::kUnspecified;
  std::optional<Duration> retry_after;
};

// What the caller wants to settle an UNRESOLVED operation as; needs the reconciler role.
struct ResolveRequest {
  enum class Resolution : uint8_t { kCompleted, kNotExecuted, kAbandoned };

  OperationId id;
  Resolution resolution = Resolution::kCompleted;
  Verdict verdict = Verdict::kSucceeded;   // kCompleted
  std::optional<CachedResponse> response;  // kCompleted
  std::string actor;                       // required: who decided
  std::string reason;                      // required: on what evidence
  std::string provider_request_id;
  std::string etag;  // settle only what was seen
};

// For reconcilers and operators; needs their access, as Resolve does.
struct ListOperationsRequest {
  std::string name_space;     // required
  std::string scope;          // empty: all that the caller may see
  std::string key_prefix;     // empty: all keys
  std::string operation_ref;  // exactly this one; empty: any
  // As they are now; empty: all but FREED. Where it is just UNRESOLVED: oldest first.
  std::vector<OperationState> states;
  Duration min_age{0};     // last updated at least this long ago
  uint32_t page_size = 0;  // at most 1,000; 0: 100
  std::string page_token;  // next_page_token of the page before, with the same filter
};

struct ListOperationsResponse {
  // Without their responses and digests. May be fewer than asked for, even none.
  std::vector<Operation> operations;
  std::string next_page_token;  // empty: that was all
};

class Connection {
 public:
  virtual ~Connection() = default;

  virtual absl::StatusOr<ReserveResponse> Reserve(const ReserveRequest& request,
                                                  const CallOptions& options) = 0;
  virtual absl::StatusOr<RenewResponse> Renew(const RenewRequest& request,
                                              const CallOptions& options) = 0;
  virtual absl::StatusOr<CompleteResponse> Complete(const CompleteRequest& request,
                                                    const CallOptions& options) = 0;
  virtual absl::StatusOr<ReleaseResponse> Release(const ReleaseRequest& request,
                                                  const CallOptions& options) = 0;
  virtual absl::StatusOr<MarkUnresolvedResponse> MarkUnresolved(
      const MarkUnresolvedRequest& request, const CallOptions& options) = 0;
  virtual absl::StatusOr<GetOperationResponse> GetOperation(const GetOperationRequest& request,
                                                            const CallOptions& options) = 0;
  virtual absl::StatusOr<Operation> Resolve(const ResolveRequest& request,
                                            const CallOptions& options) = 0;
  virtual absl::StatusOr<ListOperationsResponse> ListOperations(
      const ListOperationsRequest& request, const CallOptions& options) = 0;

  // As Renew, without a thread that waits: `done` is called once, on any thread, and must not
  // block; it may be called before this returns, and after the connection is gone. `options.stop`
  // is not looked at. For the shared renewal timer.
  using RenewDone = absl::AnyInvocable<void(absl::StatusOr<RenewResponse>) &&>;
  virtual void AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) = 0;
};

struct ConnectionOptions {
  // "host:port", "dns:///...", "unix:/path".
  std::string target = "127.0.0.1:7420";

  struct Tls {
    // PEM; empty roots: the system's.
    std::string root_certificates;
    std::string client_certificate_chain;
    std::string client_private_key;
    // Checked against the certificate instead of the target's host.
    std::string server_name;
  };
  // Unset: plaintext, for loopback and Unix sockets.
  std::optional<Tls> tls;
  // Asked for each call (with batching: for each stream), on any thread, and sent as
  // "authorization: Bearer ...". Only over TLS or to a loopback address or a Unix socket; else
  // every call fails with FAILED_PRECONDITION. Empty: none is sent.
  std::function<std::string()> bearer_token;

  // Multiplexes the calls of the process over one Pipeline stream: the same meaning, fewer
  // and larger messages. A broken stream sends again what was not answered. Calls that wait on
  // the service, Resolve, ListOperations, and very large ones go on their own all the same.
  bool batching = false;
};

// Never fails: a service that cannot be reached shows in the calls.
std::shared_ptr<Connection> MakeConnection(ConnectionOptions options);

}  // namespace idempotency

#endif  // IDEMPOTENCY_CONNECTION_H_
