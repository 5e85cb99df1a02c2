#include "client/src/pipelined_connection.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/src/convert.h"
#include "client/src/status.h"

namespace idempotency::internal {
namespace {

// --- Values in commands and results --------------------------------------------------------------

void Put(const ReserveRequest& request, v1::Command* out) {
  *out->mutable_reserve() = ToProto(request);
}
void Put(const RenewRequest& request, v1::Command* out) {
  *out->mutable_renew() = ToProto(request);
}
void Put(const CompleteRequest& request, v1::Command* out) {
  *out->mutable_complete() = ToProto(request);
}
void Put(const ReleaseRequest& request, v1::Command* out) {
  *out->mutable_release() = ToProto(request);
}
void Put(const MarkUnresolvedRequest& request, v1::Command* out) {
  *out->mutable_mark_unresolved() = ToProto(request);
}
void Put(const GetOperationRequest& request, v1::Command* out) {
  *out->mutable_get_operation() = ToProto(request);
}

void Take(const v1::Result& result, std::optional<ReserveResponse>* out) {
  if (result.has_reserve()) *out = FromProto(result.reserve());
}
void Take(const v1::Result& result, std::optional<RenewResponse>* out) {
  if (result.has_renew()) *out = FromProto(result.renew());
}
void Take(const v1::Result& result, std::optional<CompleteResponse>* out) {
  if (result.has_complete()) *out = FromProto(result.complete());
}
void Take(const v1::Result& result, std::optional<ReleaseResponse>* out) {
  if (result.has_release()) *out = FromProto(result.release());
}
void Take(const v1::Result& result, std::optional<MarkUnresolvedResponse>* out) {
  if (result.has_mark_unresolved()) *out = FromProto(result.mark_unresolved());
}
void Take(const v1::Result& result, std::optional<GetOperationResponse>* out) {
  if (result.has_get_operation()) *out = FromProto(result.get_operation());
}

template <typename Response>
absl::StatusOr<Response> Taken(const PipelineAnswer& answer) {
  if (!answer.result.ok()) return answer.result.status();
  if (answer.result->has_error()) return ToStatus(answer.result->error());
  std::optional<Response> response;
  Take(*answer.result, &response);
  if (response.has_value()) return *std::move(response);
  return absl::InternalError("the service answered a command with the result of another kind");
}

bool FitsPipeline(const v1::Command& command) {
  return command.ByteSizeLong() <= kMaxPipelineBytes;
}

// That nothing came within a moment says nothing of the stream.
constexpr Duration kSuspiciousSilence = std::chrono::seconds(1);

Pipeline::Why WhyLate(const CallOptions& options) {
  return options.timeout < kSuspiciousSilence ? Pipeline::Why::kStopped : Pipeline::Why::kTimedOut;
}

absl::Status TimedOut() {
  return absl::DeadlineExceededError("no answer from the service within the call's timeout");
}

// What is left of a call's time for another try of it.
CallOptions WithRest(CallOptions options, gpr_timespec deadline) {
  options.timeout = Until(deadline);
  return options;
}

// --- Waiting for one answer ----------------------------------------------------------------------

struct Waiter {
  absl::Notification answered;
  PipelineAnswer answer{absl::UnknownError("no answer")};

  void Answer(PipelineAnswer what) {
    answer = std::move(what);
    answered.Notify();
  }
};

// A renewal that nobody waits for, and the clock that ends it.
struct PipelinedRenewal {
  // What it takes to do it as a call of its own.
  GrpcConnection single;
  RenewRequest request;
  CallOptions options;

  Connection::RenewDone done;
  grpc::Alarm timeout;
};

}  // namespace

PipelineAnswer PipelinedConnection::Exchange(v1::Command command, const CallOptions& options) {
  const auto waiter = std::make_shared<Waiter>();
  const uint64_t tag = pipeline_->NewTag();
  pipeline_->Send(tag, std::move(command),
                  [waiter](PipelineAnswer answer) { waiter->Answer(std::move(answer)); });
  const std::stop_callback on_stop(options.stop, [&] {
    if (!pipeline_->Forget(tag, Pipeline::Why::kStopped)) return;
    waiter->Answer({absl::CancelledError("the caller does not wait any longer")});
  });
  const absl::Duration timeout = absl::FromChrono(options.timeout);
  if (!waiter->answered.WaitForNotificationWithTimeout(timeout)) {
    if (pipeline_->Forget(tag, WhyLate(options))) return {TimedOut()};
    waiter->answered.WaitForNotification();  // it is on its way
  }
  return std::move(waiter->answer);
}

template <typename Request, typename Response>
absl::StatusOr<Response> PipelinedConnection::Call(Method<Request, Response> method,
                                                   const Request& request,
                                                   const CallOptions& options) {
  if (absl::Status bad = CheckTexts(request); !bad.ok()) return bad;
  v1::Command command;
  Put(request, &command);
  if (!FitsPipeline(command)) return (unary_.*method)(request, options);
  const gpr_timespec deadline = MonotonicDeadline(options.timeout);
  const PipelineAnswer answer = Exchange(std::move(command), options);
  if (answer.stream_refused) return (unary_.*method)(request, WithRest(options, deadline));
  return Taken<Response>(answer);
}

absl::StatusOr<ReserveResponse> PipelinedConnection::Reserve(const ReserveRequest& request,
                                                             const CallOptions& options) {
  if (request.wait_duration <= Duration(0)) {
    return Call(&GrpcConnection::Reserve, request, options);
  }
  const gpr_timespec deadline = MonotonicDeadline(options.timeout);
  ReserveRequest at_once = request;
  at_once.wait_duration = Duration(0);
  CallOptions for_at_once = options;
  for_at_once.timeout = std::max(options.timeout - request.wait_duration,
                                 std::min(options.timeout, kSuspiciousSilence));
  const absl::StatusOr<ReserveResponse> response =
      Call(&GrpcConnection::Reserve, at_once, for_at_once);
  const bool would_wait = response.ok() && response->outcome == ReserveOutcome::kInProgress;
  return would_wait ? unary_.Reserve(request, WithRest(options, deadline)) : response;
}

absl::StatusOr<RenewResponse> PipelinedConnection::Renew(const RenewRequest& request,
                                                         const CallOptions& options) {
  return Call(&GrpcConnection::Renew, request, options);
}

absl::StatusOr<CompleteResponse> PipelinedConnection::Complete(const CompleteRequest& request,
                                                               const CallOptions& options) {
  return Call(&GrpcConnection::Complete, request, options);
}

absl::StatusOr<ReleaseResponse> PipelinedConnection::Release(const ReleaseRequest& request,
                                                             const CallOptions& options) {
  return Call(&GrpcConnection::Release, request, options);
}

absl::StatusOr<MarkUnresolvedResponse> PipelinedConnection::MarkUnresolved(
    const MarkUnresolvedRequest& request, const CallOptions& options) {
  return Call(&GrpcConnection::MarkUnresolved, request, options);
}

absl::StatusOr<GetOperationResponse> PipelinedConnection::GetOperation(
    const GetOperationRequest& request, const CallOptions& options) {
  if (request.wait_duration > Duration(0)) return unary_.GetOperation(request, options);
  return Call(&GrpcConnection::GetOperation, request, options);
}

absl::StatusOr<Operation> PipelinedConnection::Resolve(const ResolveRequest& request,
                                                       const CallOptions& options) {
  return unary_.Resolve(request, options);
}

absl::StatusOr<ListOperationsResponse> PipelinedConnection::ListOperations(
    const ListOperationsRequest& request, const CallOptions& options) {
  return unary_.ListOperations(request, options);
}

void PipelinedConnection::AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) {
  v1::Command command;
  Put(request, &command);
  // Also where it is refused without being sent.
  if (!CheckTexts(request).ok() || !FitsPipeline(command)) {
    return unary_.AsyncRenew(std::move(request), options, std::move(done));
  }
  const std::shared_ptr<PipelinedRenewal> renewal(
      new PipelinedRenewal{unary_, std::move(request), options, std::move(done), grpc::Alarm()});
  const uint64_t tag = pipeline_->NewTag();
  pipeline_->Send(tag, std::move(command), [renewal](const PipelineAnswer& answer) {
    if (answer.stream_refused) {
      return renewal->single.AsyncRenew(renewal->request, renewal->options,
                                        std::move(renewal->done));
    }
    std::move(renewal->done)(Taken<RenewResponse>(answer));
  });
  // An alarm keeps its function for as long as it lives itself: so it must keep neither the
  // renewal, with which it goes when the answer has come, nor the pipeline.
  renewal->timeout.Set(MonotonicDeadline(options.timeout),
                       [weak = std::weak_ptr(renewal), tag, why = WhyLate(options),
                        weak_pipeline = std::weak_ptr(pipeline_)](bool fired) {
                         const InReaction reaction;
                         const auto pipeline = weak_pipeline.lock();
                         const auto late = weak.lock();
                         if (!fired || late == nullptr || pipeline == nullptr) return;
                         if (pipeline->Forget(tag, why)) std::move(late->done)(TimedOut());
                       });
}

}  // namespace idempotency::internal
