#include "tests/client/run/fake_service.h"

#include <grpc/grpc.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace idempotency::testing {
namespace {

template <typename Message>
void Fail(const grpc::Status& status, Message* error) {
  error->set_code(status.error_code());
  error->set_message(status.error_message());
}

// Runs a method for one command; `part` is where its response goes.
template <typename Request, typename Response>
void RunCommand(Method<Request, Response>& method, const Request& request, v1::Result* result,
                Response* (v1::Result::*part)()) {
  Response response;
  const grpc::Status status = method.Run(nullptr, request, &response);
  if (status.ok()) {
    *(result->*part)() = std::move(response);
  } else {
    Fail(status, result->mutable_error());
  }
}

}  // namespace

grpc::Status RefuseCall(grpc::ServerContext* context, grpc::StatusCode code,
                        const std::string& reason, const std::string& field,
                        std::chrono::milliseconds retry_after) {
  google::rpc::Status status;
  status.set_code(code);
  status.set_message("the service says no");
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("idempotency.v1");
  status.add_details()->PackFrom(info);
  if (!field.empty()) {
    google::rpc::BadRequest bad;
    bad.add_field_violations()->set_field(field);
    status.add_details()->PackFrom(bad);
  }
  if (retry_after.count() > 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(retry_after.count() * 1'000'000));
    status.add_details()->PackFrom(retry);
  }
  if (context != nullptr) context->AddTrailingMetadata("idempotency-reason", reason);
  return grpc::Status(code, status.message(), status.SerializeAsString());
}

v1::Result FakeV1Service::Answer(const v1::Command& command) {
  v1::Result result;
  result.set_tag(command.tag());
  switch (command.command_case()) {
    case v1::Command::kReserve:
      RunCommand(reserve, command.reserve(), &result, &v1::Result::mutable_reserve);
      break;
    case v1::Command::kRenew:
      RunCommand(renew, command.renew(), &result, &v1::Result::mutable_renew);
      break;
    case v1::Command::kComplete:
      RunCommand(complete, command.complete(), &result, &v1::Result::mutable_complete);
      break;
    case v1::Command::kRelease:
      RunCommand(release, command.release(), &result, &v1::Result::mutable_release);
      break;
    case v1::Command::kMarkUnresolved:
      RunCommand(mark, command.mark_unresolved(), &result, &v1::Result::mutable_mark_unresolved);
      break;
    case v1::Command::kGetOperation:
      RunCommand(get, command.get_operation(), &result, &v1::Result::mutable_get_operation);
      break;
    case v1::Command::COMMAND_NOT_SET:
      result.mutable_error()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
      break;
  }
  return result;
}

grpc::Status FakeV1Service::Pipeline(grpc::ServerContext* context, Stream* stream) {
  ++streams;
  see(context);
  if (pipeline) return pipeline(context, stream);
  v1::PipelineRequest request;
  while (stream->Read(&request)) {
    v1::PipelineResponse response;
    for (const v1::Command& command : request.commands()) {
      *response.add_results() = Answer(command);
    }
    stream->Write(response);
  }
  return grpc::Status::OK;
}

FakeServer::FakeServer(std::shared_ptr<grpc::ServerCredentials> credentials) {
  // gRPC stops altogether with its last user, and sometimes takes ten seconds for it.
  static const bool kept = (grpc_init(), true);
  (void)kept;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port_);
  builder.SetMaxReceiveMessageSize(16 << 20);  // as the service does
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&service);
  builder.RegisterService(&admin);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() { Stop(); }

void FakeServer::Stop() { server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC)); }

std::shared_ptr<Connection> FakeServer::Connect(bool batching) const {
  return MakeConnection({.target = target(), .batching = batching});
}

}  // namespace idempotency::testing
