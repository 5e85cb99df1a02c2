// A connection on which the calls of one run meet the faults of a script, and are written down.
#ifndef IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_FAULTY_CONNECTION_H_
#define IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_FAULTY_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/connection.h"
#include "tests/client/conformance/script.h"

namespace idempotency::testing {

// Thread safety: as Connection.
class FaultyConnection : public Connection {
 public:
  // faults: of tests/vectors/conformance.json.
  FaultyConnection(std::shared_ptr<Connection> good, const Json& faults);

  // The methods in the order in which they were called, but for Renew.
  std::vector<std::string> calls() const;

  absl::StatusOr<ReserveResponse> Reserve(const ReserveRequest& request,
                                          const CallOptions& options) override {
    return Call("Reserve", &Connection::Reserve, request, options);
  }
  absl::StatusOr<RenewResponse> Renew(const RenewRequest& request,
                                      const CallOptions& options) override {
    return Call("Renew", &Connection::Renew, request, options);
  }
  absl::StatusOr<CompleteResponse> Complete(const CompleteRequest& request,
                                            const CallOptions& options) override {
    return Call("Complete", &Connection::Complete, request, options);
  }
  absl::StatusOr<ReleaseResponse> Release(const ReleaseRequest& request,
                                          const CallOptions& options) override {
    return Call("Release", &Connection::Release, request, options);
  }
  absl::StatusOr<MarkUnresolvedResponse> MarkUnresolved(const MarkUnresolvedRequest& request,
                                                        const CallOptions& options) override {
    return Call("MarkUnresolved", &Connection::MarkUnresolved, request, options);
  }
  absl::StatusOr<GetOperationResponse> GetOperation(const GetOperationRequest& request,
                                                    const CallOptions& options) override {
    return Call("GetOperation", &Connection::GetOperation, request, options);
  }
  absl::StatusOr<Operation> Resolve(const ResolveRequest& request,
                                    const CallOptions& options) override {
    return Call("ResolveOperation", &Connection::Resolve, request, options);
  }
  absl::StatusOr<ListOperationsResponse> ListOperations(const ListOperationsRequest& request,
                                                        const CallOptions& options) override {
    return Call("ListOperations", &Connection::ListOperations, request, options);
  }
  // No script has a fault for the background.
  void AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) override;

 private:
  struct Fate {
    bool is_sent = true;
    // What the caller sees instead of the answer.
    std::optional<absl::Status> failure;
  };

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(const char* name,
                                absl::StatusOr<Response> (Connection::*method)(const Request&,
                                                                               const CallOptions&),
                                const Request& request, const CallOptions& options) {
    const Fate fate = Next(name);
    if (!fate.is_sent) return *fate.failure;
    absl::StatusOr<Response> response = ((*good_).*method)(request, options);
    if (fate.failure.has_value()) return *fate.failure;
    return response;
  }

  Fate Next(const std::string& method);

  const std::shared_ptr<Connection> good_;
  mutable absl::Mutex mutex_;
  Json faults_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_FAULTY_CONNECTION_H_
