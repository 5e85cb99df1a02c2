// Answers of gRPC calls as they are stored, and back.
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/src/grpc/metadata.h"
#include "client/src/grpc/status_details.h"
#include "idempotency/grpc.h"

namespace idempotency {
namespace {

bool IsMark(std::string_view name) {
  return name == kReplayedMetadata || name == kRecordOpenMetadata || name == kReasonMetadata;
}

grpc::StatusCode CodeOfHttp(int status) {
  if (status >= 200 && status <= 299) return grpc::StatusCode::OK;
  if (status >= 400 && status <= 499) return grpc::StatusCode::FAILED_PRECONDITION;
  return grpc::StatusCode::UNKNOWN;
}

grpc::StatusCode CodeOf(const CachedResponse& response) {
  constexpr int kLastCode = 16;
  if (const auto* http = std::get_if<CachedResponse::HttpStatus>(&response.status)) {
    return CodeOfHttp(http->code);
  }
  if (const auto* grpc = std::get_if<CachedResponse::GrpcCode>(&response.status)) {
    const bool known = grpc->code >= 0 && grpc->code <= kLastCode;
    return known ? static_cast<grpc::StatusCode>(grpc->code) : grpc::StatusCode::UNKNOWN;
  }
  return grpc::StatusCode::OK;
}

std::string DetailsOf(const CachedResponse& response) {
  for (const auto& [name, value] : response.metadata) {
    if (name == internal::kDetailsMetadata) return value;
  }
  return {};
}

}  // namespace

CachedResponse ToCachedResponse(const grpc::Status& status,
                                const google::protobuf::Message& message,
                                const Metadata& trailing_metadata) {
  CachedResponse response;
  response.status = CachedResponse::GrpcCode{status.error_code()};
  response.status_message = status.error_message();
  if (status.ok()) {
    response.content_type =
        absl::StrCat("application/x-protobuf; messageType=", message.GetDescriptor()->full_name());
    response.body = message.SerializeAsString();
  } else if (!status.error_details().empty()) {
    response.metadata.emplace_back(internal::kDetailsMetadata, status.error_details());
  }
  for (const auto& [name, value] : trailing_metadata) {
    if (internal::IsLegal(name, value) && !IsMark(name))
      response.metadata.emplace_back(name, value);
  }
  return response;
}

grpc::Status FromCachedResponse(const CachedResponse& response, google::protobuf::Message* message,
                                Metadata* trailing_metadata) {
  if (trailing_metadata != nullptr) {
    trailing_metadata->clear();
    for (const auto& [name, value] : response.metadata) {
      if (internal::IsLegal(name, value) && !IsMark(name)) {
        trailing_metadata->emplace_back(name, value);
      }
    }
  }
  if (message != nullptr) message->Clear();
  const grpc::StatusCode code = CodeOf(response);
  if (code != grpc::StatusCode::OK) {
    return grpc::Status(code, response.status_message, DetailsOf(response));
  }
  const bool readable =
      message == nullptr || (response.body.has_value() && message->ParseFromString(*response.body));
  if (readable) return grpc::Status::OK;
  message->Clear();
  return internal::MakeStatus(
      grpc::StatusCode::INTERNAL, "INTERNAL",
      absl::StrCat("The operation succeeded, and what is stored of its answer is no ",
                   message->GetDescriptor()->full_name(), "; look up what it did."),
      std::nullopt);
}

}  // namespace idempotency
