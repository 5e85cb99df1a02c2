#include "client/src/grpc_connection.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "absl/synchronization/notification.h"
#include "client/src/convert.h"

namespace idempotency::internal {
namespace {

using Service = Wires::Service;
using Admin = Wires::Admin;

// A generated method that starts a call; the function is called when it has ended, on any thread.
template <typename Stub, typename Request, typename Response>
using Method = void (Stub::*)(grpc::ClientContext*, const Request*, Response*,
                              std::function<void(grpc::Status)>);

// One call that this thread waits for: checks and converts, waits, converts.
template <typename Request, typename Response, typename Stub, typename Value>
auto Call(const Wires& wires, Stub* stub, Method<Stub, Request, Response> method,
          const Value& value, const CallOptions& options)
    -> absl::StatusOr<decltype(FromProto(std::declval<const Response&>()))> {
  if (absl::Status bad = CheckTexts(value); !bad.ok()) return bad;
  grpc::ClientContext context;
  if (absl::Status unfit = wires.Prepare(&context, options.timeout); !unfit.ok()) return unfit;
  const std::stop_callback on_stop(options.stop, [&context] { context.TryCancel(); });
  const Request request = ToProto(value);
  Response response;
  grpc::Status status;
  absl::Notification ended;
  (stub->*method)(&context, &request, &response, [&](grpc::Status end) {
    status = std::move(end);
    ended.Notify();
  });
  ended.WaitForNotification();
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
  return Call<v1::ReserveRequest, v1::ReserveResponse>(*wires_, wires_->service(),
                                                       &Service::Reserve, request, options);
}

absl::StatusOr<RenewResponse> GrpcConnection::Renew(const RenewRequest& request,
                                                    const CallOptions& options) {
  return Call<v1::RenewRequest, v1::RenewResponse>(*wires_, wires_->service(), &Service::Renew,
                                                   request, options);
}

absl::StatusOr<CompleteResponse> GrpcConnection::Complete(const CompleteRequest& request,
                                                          const CallOptions& options) {
  return Call<v1::CompleteRequest, v1::CompleteResponse>(*wires_, wires_->service(),
                                                         &Service::Complete, request, options);
}

absl::StatusOr<ReleaseResponse> GrpcConnection::Release(const ReleaseRequest& request,
                                                        const CallOptions& options) {
  return Call<v1::ReleaseRequest, v1::ReleaseResponse>(*wires_, wires_->service(),
                                                       &Service::Release, request, options);
}

absl::StatusOr<MarkUnresolvedResponse> GrpcConnection::MarkUnresolved(
    const MarkUnresolvedRequest& request, const CallOptions& options) {
  return Call<v1::MarkUnresolvedRequest, v1::MarkUnresolvedResponse>(
      *wires_, wires_->service(), &Service::MarkUnresolved, request, options);
}

absl::StatusOr<GetOperationResponse> GrpcConnection::GetOperation(
    const GetOperationRequest& request, const CallOptions& options) {
  return Call<v1::GetOperationRequest, v1::GetOperationResponse>(
      *wires_, wires_->service(), &Service::GetOperation, request, options);
}

absl::StatusOr<Operation> GrpcConnection::Resolve(const ResolveRequest& request,
                                                  const CallOptions& options) {
  return Call<v1::ResolveOperationRequest, v1::ResolveOperationResponse>(
      *wires_, wires_->admin(), &Admin::ResolveOperation, request, options);
}

absl::StatusOr<ListOperationsResponse> GrpcConnection::ListOperations(
    const ListOperationsRequest& request, const CallOptions& options) {
  return Call<v1::ListOperationsRequest, v1::ListOperationsResponse>(
      *wires_, wires_->admin(), &Admin::ListOperations, request, options);
}

void GrpcConnection::AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) {
  if (absl::Status bad = CheckTexts(request); !bad.ok()) return std::move(done)(std::move(bad));
  auto call = std::make_unique<RenewCall>(wires_, std::move(done));
  if (absl::Status unfit = wires_->Prepare(&call->context, options.timeout); !unfit.ok()) {
    return std::move(call->done)(std::move(unfit));
  }
  call->request = ToProto(request);
  RenewCall* const raw = call.release();  // until it is answered
  wires_->service()->Renew(&raw->context, &raw->request, &raw->response,
                           [raw](const grpc::Status& status) {
                             const InReaction reaction;
                             const std::unique_ptr<RenewCall> answered(raw);
                             if (!status.ok())
                               return std::move(raw->done)(StatusOf(status, raw->context));
                             std::move(raw->done)(FromProto(raw->response));
                           });
}

}  // namespace idempotency::internal
