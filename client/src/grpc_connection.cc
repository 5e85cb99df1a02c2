#include "client/src/grpc_connection.h"

#include <memory>
#include <stop_token>
#include <utility>

#include "client/src/convert.h"

namespace idempotency::internal {
namespace {

// One call on the calling thread: checks and converts, waits, converts. `method` is one of a
// generated stub.
template <typename Stub, typename Request, typename Response, typename Value>
auto Call(const Wires& wires, Stub& stub,
          grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
          const Value& value, const CallOptions& options)
    -> absl::StatusOr<decltype(FromProto(std::declval<const Response&>()))> {
  if (absl::Status bad = CheckTexts(value); !bad.ok()) return bad;
  grpc::ClientContext context;
  if (absl::Status unfit = wires.Prepare(&context, options.timeout); !unfit.ok()) return unfit;
  const std::stop_callback on_stop(options.stop, [&context] { context.TryCancel(); });
  Response response;
  const grpc::Status status = (stub.*method)(&context, ToProto(value), &response);
  if (!status.ok()) return StatusOf(status, context);
  return FromProto(response);
}

// A renewal that nobody waits for.
struct RenewCall {
  RenewCall(std::shared_ptr<const Wires> kept, Connection::RenewDone when_done)
      : wires(std::move(kept)), done(std::move(when_done)) {}

  // The last to go.
  const std::shared_ptr<const Wires> wires;
  grpc::ClientContext context;
  v1::RenewRequest request;
  v1::RenewResponse response;
  Connection::RenewDone done;
};

}  // namespace

absl::StatusOr<ReserveResponse> GrpcConnection::Reserve(const ReserveRequest& request,
                                                        const CallOptions& options) {
  return Call(*wires_, wires_->service(), &v1::IdempotencyService::Stub::Reserve, request, options);
}

absl::StatusOr<RenewResponse> GrpcConnection::Renew(const RenewRequest& request,
                                                    const CallOptions& options) {
  return Call(*wires_, wires_->service(), &v1::IdempotencyService::Stub::Renew, request, options);
}

absl::StatusOr<CompleteResponse> GrpcConnection::Complete(const CompleteRequest& request,
                                                          const CallOptions& options) {
  return Call(*wires_, wires_->service(), &v1::IdempotencyService::Stub::Complete, request,
              options);
}

absl::StatusOr<ReleaseResponse> GrpcConnection::Release(const ReleaseRequest& request,
                                                        const CallOptions& options) {
  return Call(*wires_, wires_->service(), &v1::IdempotencyService::Stub::Release, request, options);
}

absl::StatusOr<MarkUnresolvedResponse> GrpcConnection::MarkUnresolved(
    const MarkUnresolvedRequest& request, const CallOptions& options) {
  return Call(*wires_, wires_->service(), &v1::IdempotencyService::Stub::MarkUnresolved, request,
              options);
}

absl::StatusOr<GetOperationResponse> GrpcConnection::GetOperation(
    const GetOperationRequest& request, const CallOptions& options) {
  return Call(*wires_, wires_->service(), &v1::IdempotencyService::Stub::GetOperation, request,
              options);
}

absl::StatusOr<Operation> GrpcConnection::Resolve(const ResolveRequest& request,
                                                  const CallOptions& options) {
  return Call(*wires_, wires_->admin(), &v1::IdempotencyAdminService::Stub::ResolveOperation,
              request, options);
}

void GrpcConnection::AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) {
  if (absl::Status bad = CheckTexts(request); !bad.ok()) return std::move(done)(std::move(bad));
  auto call = std::make_unique<RenewCall>(wires_, std::move(done));
  if (absl::Status unfit = wires_->Prepare(&call->context, options.timeout); !unfit.ok()) {
    return std::move(call->done)(std::move(unfit));
  }
  call->request = ToProto(request);
  RenewCall* const raw = call.release();  // until it is answered
  wires_->service().async()->Renew(&raw->context, &raw->request, &raw->response,
                                   [raw](const grpc::Status& status) {
                                     const InReaction reaction;
                                     const std::unique_ptr<RenewCall> answered(raw);
                                     if (!status.ok())
                                       return std::move(raw->done)(StatusOf(status, raw->context));
                                     std::move(raw->done)(FromProto(raw->response));
                                   });
}

}  // namespace idempotency::internal
