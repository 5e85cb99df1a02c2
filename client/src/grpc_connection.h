// The calls of the service, each as one unary RPC.
#ifndef IDEMPOTENCY_CLIENT_SRC_GRPC_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_SRC_GRPC_CONNECTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/src/wires.h"
#include "idempotency/connection.h"

namespace idempotency::internal {

// Thread safety: as Connection.
class GrpcConnection final : public Connection {
 public:
  explicit GrpcConnection(std::shared_ptr<const Wires> wires) : wires_(std::move(wires)) {}

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

 private:
  const std::shared_ptr<const Wires> wires_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_GRPC_CONNECTION_H_
