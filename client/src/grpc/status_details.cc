#include "client/src/grpc/status_details.h"

#include <chrono>
#include <cstdint>

#include "client/src/convert.h"
#include "idempotency/wire/error_details.pb.h"

namespace idempotency::internal {
namespace {

constexpr char kDomain[] = "idempotency.guard";
constexpr std::string_view kTypePrefix = "type.googleapis.com/google.rpc.";

// The messages of wire are google.rpc's by their bytes, and not by their names.
template <typename Detail>
void AddDetail(std::string_view name, const Detail& detail, wire::ErrorStatus* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url(std::string(kTypePrefix) + std::string(name));
  any->set_value(detail.SerializeAsString());
}

template <typename Detail>
std::optional<Detail> FindDetail(std::string_view name, const grpc::Status& status) {
  wire::ErrorStatus details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& any : details.details()) {
    const std::string& url = any.type_url();
    Detail detail;
    if (url.ends_with("/google.rpc." + std::string(name)) && detail.ParseFromString(any.value())) {
      return detail;
    }
  }
  return std::nullopt;
}

}  // namespace

grpc::Status MakeStatus(grpc::StatusCode code, std::string_view reason, const std::string& message,
                        std::optional<Duration> retry_after) {
  wire::ErrorStatus details;
  details.set_code(code);
  details.set_message(message);
  wire::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  AddDetail("ErrorInfo", info, &details);
  if (retry_after.has_value()) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(*retry_after);
    const std::chrono::nanoseconds rest = *retry_after - seconds;
    wire::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(seconds.count());
    retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(rest.count()));
    AddDetail("RetryInfo", retry, &details);
  }
  return grpc::Status(code, message, details.SerializeAsString());
}

std::string ReasonOf(const grpc::Status& status) {
  const auto info = FindDetail<wire::ErrorInfo>("ErrorInfo", status);
  return info.has_value() && info->domain() == kDomain ? info->reason() : std::string();
}

std::optional<Duration> RetryAfterOf(const grpc::Status& status) {
  const auto retry = FindDetail<wire::RetryInfo>("RetryInfo", status);
  if (!retry.has_value() || !retry->has_retry_delay()) return std::nullopt;
  return FromProtoUp(retry->retry_delay());
}

}  // namespace idempotency::internal
