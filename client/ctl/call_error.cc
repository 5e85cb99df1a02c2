#include "client/ctl/call_error.h"

#include <array>
#include <cstddef>

#include "client/ctl/enum_text.h"
#include "client/ctl/time_proto.h"
#include "idempotency/wire/error_details.pb.h"

namespace idempotency::ctl {
namespace {

constexpr std::array<const char*, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

constexpr int kInvalidArgument = 3;
constexpr int kNotFound = 5;
constexpr int kPermissionDenied = 7;
constexpr int kFailedPrecondition = 9;
constexpr int kOutOfRange = 11;
constexpr int kUnimplemented = 12;
constexpr int kUnauthenticated = 16;

// Without a reason it was not the service that spoke but something on the way (a proxy, the
// transport, the client library). Only codes that nothing gives after the fact are refusals.
bool RefusedOnTheWay(int code) {
  switch (code) {
    case kInvalidArgument:
    case kNotFound:
    case kPermissionDenied:
    case kFailedPrecondition:
    case kOutOfRange:
    case kUnimplemented:
    case kUnauthenticated:
      return true;
  }
  return false;
}

Delivery DeliveryOf(const CallError& error) {
  if (error.reason.empty()) {
    return RefusedOnTheWay(error.code) ? Delivery::kRefused : Delivery::kUnknown;
  }
  // The one reason that leaves open whether the change was made.
  return ReasonOf(error) == v1::ERROR_REASON_STORE_UNAVAILABLE ? Delivery::kUnknown
                                                               : Delivery::kRefused;
}

// Whether `any` is google.rpc.<name>, and holds what the wire-compatible `message` can read.
template <typename Message>
bool Unpack(const google::protobuf::Any& any, std::string_view name, Message* message) {
  const std::string& url = any.type_url();
  const size_t slash = url.rfind('/');
  return slash != std::string::npos && std::string_view(url).substr(slash + 1) == name &&
         message->ParseFromString(any.value());
}

void ReadDetails(std::string_view details, CallError* error) {
  wire::ErrorStatus status;
  if (!status.ParseFromArray(details.data(), static_cast<int>(details.size()))) return;
  for (const google::protobuf::Any& any : status.details()) {
    wire::ErrorInfo info;
    wire::BadRequest bad_request;
    wire::RetryInfo retry;
    if (Unpack(any, "google.rpc.ErrorInfo", &info)) {
      if (error->reason.empty()) error->reason = info.reason();
    } else if (Unpack(any, "google.rpc.BadRequest", &bad_request)) {
      if (bad_request.field_violations_size() > 0) {
        error->field = bad_request.field_violations(0).field();
      }
    } else if (Unpack(any, "google.rpc.RetryInfo", &retry)) {
      error->retry_after = FromProto(retry.retry_delay());
    }
  }
}

}  // namespace

CallError ErrorFromTrailers(int code, std::string_view message, std::string_view details,
                            std::string_view reason) {
  CallError error;
  error.code = code;
  error.message = std::string(message);
  error.reason = std::string(reason);
  ReadDetails(details, &error);
  error.delivery = DeliveryOf(error);
  return error;
}

v1::ErrorReason ReasonOf(const CallError& error) {
  return ParseEnum<v1::ErrorReason>(error.reason).value_or(v1::ERROR_REASON_UNSPECIFIED);
}

v1::Error ToProto(const CallError& error) {
  v1::Error proto;
  proto.set_code(error.code);
  proto.set_reason(ReasonOf(error));
  proto.set_message(error.message);
  proto.set_field(error.field);
  if (error.retry_after) *proto.mutable_retry_after() = ToProto(*error.retry_after);
  return proto;
}

std::string StatusCodeName(int code) {
  const bool known = code >= 0 && static_cast<size_t>(code) < kCodeNames.size();
  return known ? kCodeNames[static_cast<size_t>(code)] : std::to_string(code);
}

}  // namespace idempotency::ctl
