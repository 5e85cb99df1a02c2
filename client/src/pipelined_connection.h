// The calls of the service as commands of one stream (pipeline.h): the same meaning as
// GrpcConnection, more of them a second. What the stream is not fit for goes as a call of its own.
#ifndef IDEMPOTENCY_CLIENT_SRC_PIPELINED_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_SRC_PIPELINED_CONNECTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/src/grpc_connection.h"
#include "client/src/pipeline.h"
#include "client/src/wires.h"
#include "idempotency/connection.h"

namespace idempotency::internal {

// Thread safety: as Connection.
class PipelinedConnection final : public Connection {
 public:
  explicit PipelinedConnection(std::shared_ptr<const Wires> wires)
      : unary_(wires), pipeline_(std::make_shared<Pipeline>(std::move(wires))) {}
  ~PipelinedConnection() override { pipeline_->Close(); }
  PipelinedConnection(const PipelinedConnection&) = delete;
  PipelinedConnection& operator=(const PipelinedConnection&) = delete;

  // Where it would wait, the wait is a call of its own, which can be ended early.
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
  template <typename Request, typename Response>
  using Method = absl::StatusOr<Response> (GrpcConnection::*)(const Request&, const CallOptions&);

  // As a command; by `method` where that does not fit.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, const Request& request,
                                const CallOptions& options);
  PipelineAnswer Exchange(v1::Command command, const CallOptions& options);

  GrpcConnection unary_;
  const std::shared_ptr<Pipeline> pipeline_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_PIPELINED_CONNECTION_H_
