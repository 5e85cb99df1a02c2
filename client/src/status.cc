#include "client/src/status.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/src/convert.h"
#include "idempotency/connection.h"
#include "idempotency/wire/error_details.pb.h"

namespace idempotency::internal {
namespace {

constexpr char kDomain[] = "idempotency.v1";
constexpr int kLastCode = 16;

absl::StatusCode ToCode(int code) {
  // The same numbers; 0 would be a success.
  const bool known = code > 0 && code <= kLastCode;
  return known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

std::optional<ErrorReason> ToReason(std::string_view name) {
  v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
  const bool known =
      v1::ErrorReason_Parse(absl::StrCat("ERROR_REASON_", std::string(name)), &reason);
  if (!known || reason == v1::ERROR_REASON_UNSPECIFIED) return std::nullopt;
  return static_cast<ErrorReason>(reason);
}

// Whether `any` is google.rpc.<name>, and holds what the wire-compatible `message` can read.
template <typename Message>
bool Unpack(const google::protobuf::Any& any, std::string_view name, Message* message) {
  const std::string& url = any.type_url();
  const size_t slash = url.rfind('/');
  return slash != std::string::npos && std::string_view(url).substr(slash + 1) == name &&
         message->ParseFromString(any.value());
}

struct Details {
  std::string reason;
  std::string field;
  std::optional<Duration> retry_after;
};

Details ReadDetails(std::string_view bytes) {
  Details details;
  wire::ErrorStatus status;
  if (!status.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return details;
  for (const google::protobuf::Any& any : status.details()) {
    wire::ErrorInfo info;
    wire::BadRequest bad_request;
    wire::RetryInfo retry;
    if (Unpack(any, "google.rpc.ErrorInfo", &info)) {
      if (info.domain() == kDomain) details.reason = info.reason();
    } else if (Unpack(any, "google.rpc.BadRequest", &bad_request)) {
      if (bad_request.field_violations_size() > 0) {
        details.field = bad_request.field_violations(0).field();
      }
    } else if (Unpack(any, "google.rpc.RetryInfo", &retry)) {
      details.retry_after = FromProtoUp(retry.retry_delay());
    }
  }
  return details;
}

}  // namespace

absl::Status ToStatus(int code, std::string_view message, std::string_view bytes,
                      std::string_view reason_trailer) {
  Details details = ReadDetails(bytes);
  const std::optional<ErrorReason> reason =
      ToReason(reason_trailer.empty() ? std::string_view(details.reason) : reason_trailer);
  if (!reason.has_value()) {
    return absl::Status(ToCode(code), std::string(message));
  }
  return MakeRefused(
      Refusal{
          .reason = *reason, .field = std::move(details.field), .retry_after = details.retry_after},
      ToCode(code), std::string(message));
}

absl::Status ToStatus(const v1::Error& error) {
  const bool known =
      error.reason() != v1::ERROR_REASON_UNSPECIFIED && v1::ErrorReason_IsValid(error.reason());
  if (!known) return absl::Status(ToCode(error.code()), error.message());
  Refusal refusal{.reason = static_cast<ErrorReason>(error.reason()), .field = error.field()};
  if (error.has_retry_after()) refusal.retry_after = FromProtoUp(error.retry_after());
  return MakeRefused(refusal, ToCode(error.code()), error.message());
}

}  // namespace idempotency::internal
