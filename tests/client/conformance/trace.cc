#include "tests/client/conformance/trace.h"

#include <utility>
#include <variant>

#include "client/src/framed_hash.h"
#include "idempotency/connection.h"

namespace idempotency::testing {

Json ShowHex(const std::optional<std::string>& bytes) {
  return bytes.has_value() ? Json(ToHex(*bytes)) : Json();
}

Json ShowLease(const Json& step, const std::optional<Lease>& lease) {
  if (!lease.has_value()) return {};
  // Of a short one that was asked for, time alone decides.
  const Json live = step.contains("lease_ms") ? Json() : Json(lease->remaining > Duration(0));
  return {{"attempt", lease->attempt},
          {"token", lease->fencing_token},
          {"live", live},
          {"progress_hex", ShowHex(lease->progress)}};
}

Json ShowResponse(const std::optional<CachedResponse>& response) {
  if (!response.has_value()) return {};
  const auto* http = std::get_if<CachedResponse::HttpStatus>(&response->status);
  const auto* grpc = std::get_if<CachedResponse::GrpcCode>(&response->status);
  Json metadata = Json::array();
  for (const auto& [name, value] : response->metadata) {
    metadata.push_back(Json::array({name, ToHex(value)}));
  }
  Json body;
  if (response->body.has_value()) {
    body = {{"size", response->body->size()}, {"sha256", ToHex(internal::Sha256(*response->body))}};
  }
  return {{"http_status", http == nullptr ? Json() : Json(http->code)},
          {"grpc_code", grpc == nullptr ? Json() : Json(grpc->code)},
          {"status_message", response->status_message},
          {"content_type", response->content_type},
          {"metadata", std::move(metadata)},
          {"body", std::move(body)},
          {"body_omitted", response->body_omitted},
          {"body_size", std::to_string(response->body_size)},
          {"metadata_omitted", response->metadata_omitted}};
}

Json ShowOperation(const std::optional<Operation>& operation) {
  if (!operation.has_value()) return {};
  Json labels = Json::object();
  for (const auto& [name, value] : operation->labels) labels[name] = value;
  const std::string& algorithm = operation->fingerprint.algorithm;
  return {{"state", ShowName(operation->state)},
          {"attempt", operation->attempt},
          {"dispatched", operation->dispatched},
          {"verdict", ShowName(operation->verdict)},
          {"cause", ShowName(operation->unresolved_cause)},
          {"provider_request_id", operation->provider_request_id},
          {"operation_ref", operation->owner.operation_ref},
          {"labels", std::move(labels)},
          {"fingerprint", algorithm.empty() ? Json() : Json(algorithm)},
          {"digest", !operation->fingerprint.digest.empty()},
          {"response", ShowResponse(operation->response)}};
}

Json ShowError(const absl::Status& error) {
  const std::optional<Refusal> refusal = Refused(error);
  return {{"code", absl::StatusCodeToString(error.code())},
          {"reason", refusal ? ShowName(refusal->reason) : Json()},
          {"field", refusal ? refusal->field : ""},
          {"retry_after", refusal && refusal->retry_after.has_value()}};
}

Json ShowResult(const RunResult& result) {
  Json refusal;
  if (result.refusal.has_value()) {
    refusal = {{"reason", ShowName(result.refusal->reason)}, {"field", result.refusal->field}};
  }
  Json error;
  if (!result.effect_error.ok()) {
    error = {{"code", absl::StatusCodeToString(result.effect_error.code())},
             {"message", std::string(result.effect_error.message())}};
  }
  return {{"stop", ShowName(result.stop)},
          {"next_step", ShowName(result.next_step)},
          {"verdict", ShowName(result.verdict)},
          {"replayed", result.replayed},
          {"response", ShowResponse(result.response)},
          {"refusal", std::move(refusal)},
          {"effect_error", std::move(error)},
          {"record_open", result.record_open},
          {"unprotected", result.unprotected},
          {"retry_after", result.retry_after.has_value()},
          {"state", result.operation ? ShowName(result.operation->state) : Json()}};
}

}  // namespace idempotency::testing
