#include "client/src/convert.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/src/utf8.h"

namespace idempotency::internal {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kMaxSeconds = std::numeric_limits<int64_t>::max() / 1000 - 1;

// --- Texts ---------------------------------------------------------------------------------------

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// The first of several texts that is not UTF-8.
class TextCheck {
 public:
  TextCheck& operator()(std::string_view field, std::string_view text) {
    if (field_.empty() && !IsUtf8(text)) field_ = std::string(field);
    return *this;
  }
  TextCheck& operator()(const OperationId& id) {
    return (*this)("id.namespace", id.name_space)("id.scope", id.scope)("id.key", id.key);
  }
  TextCheck& operator()(const std::optional<Fingerprint>& fingerprint) {
    if (!fingerprint.has_value()) return *this;
    return (*this)("fingerprint.algorithm", fingerprint->algorithm);
  }
  TextCheck& operator()(const Owner& owner) {
    return (*this)("owner.worker", owner.worker)("owner.operation_ref", owner.operation_ref)(
        "owner.traceparent", owner.traceparent);
  }

  absl::Status Result() const {
    if (field_.empty()) return absl::OkStatus();
    return MakeRefused(Refusal{.reason = ErrorReason::kInvalidField, .field = field_},
                       absl::StatusCode::kInvalidArgument,
                       absl::StrCat(field_, " is not UTF-8; encode it and call again."));
  }

 private:
  std::string field_;
};

// --- Times ---------------------------------------------------------------------------------------

void Set(Duration span, google::protobuf::Duration* out) {
  out->set_seconds(span.count() / 1000);
  out->set_nanos(static_cast<int32_t>(span.count() % 1000 * kNanosPerMilli));
}

int64_t FloorDiv(int64_t value, int64_t by) {
  return value / by - (value % by != 0 && value < 0 ? 1 : 0);
}

Duration Millis(int64_t seconds, int64_t millis) {
  return Duration(std::clamp(seconds, -kMaxSeconds, kMaxSeconds) * 1000 + millis);
}

Duration FromProtoDown(const google::protobuf::Duration& duration) {
  return Millis(duration.seconds(), FloorDiv(duration.nanos(), kNanosPerMilli));
}

SystemTime ToTime(const google::protobuf::Timestamp& time) {
  return SystemTime(Millis(time.seconds(), FloorDiv(time.nanos(), kNanosPerMilli)));
}

// --- To messages ---------------------------------------------------------------------------------

void Set(const OperationId& id, v1::OperationId* out) {
  out->set_namespace_(id.name_space);
  out->set_scope(id.scope);
  out->set_key(id.key);
}

void Set(const Fingerprint& fingerprint, v1::Fingerprint* out) {
  out->set_algorithm(fingerprint.algorithm);
  out->set_digest(fingerprint.digest);
}

void Set(const Owner& owner, v1::Owner* out) {
  out->set_worker(owner.worker);
  out->set_operation_ref(owner.operation_ref);
  out->set_traceparent(owner.traceparent);
}

void SetBody(const CachedResponse& response, v1::CachedResponse* out) {
  out->set_body_omitted(response.body_omitted);
  out->set_body_size(response.body_size);
  if (!response.body.has_value()) return;
  if (response.body->size() > kMaxBodyBytes) {
    out->set_body_omitted(true);
    out->set_body_size(std::max<uint64_t>(response.body_size, response.body->size()));
    return;
  }
  out->set_body(*response.body);
}

void Set(const CachedResponse& response, v1::CachedResponse* out) {
  if (const auto* http = std::get_if<CachedResponse::HttpStatus>(&response.status)) {
    out->set_http_status(http->code);
  }
  if (const auto* grpc = std::get_if<CachedResponse::GrpcCode>(&response.status)) {
    out->set_grpc_code(grpc->code);
  }
  out->set_status_message(MendedText(response.status_message, kMaxLongTextBytes));
  out->set_content_type(MendedText(response.content_type, kMaxShortTextBytes));
  size_t bytes = 0;
  for (const auto& [name, value] : response.metadata) {
    bytes += name.size() + value.size();
    if (bytes > kMaxSentMetadataBytes) break;
    v1::MetadataEntry* const entry = out->add_metadata();
    entry->set_name(MendedText(name, name.size() * 3));
    entry->set_value(value);
  }
  SetBody(response, out);
}

// --- From messages -------------------------------------------------------------------------------

template <typename Enum>
Enum ToEnum(int number) {
  const bool fits = number >= 0 && number <= std::numeric_limits<uint8_t>::max();
  return fits ? static_cast<Enum>(number) : Enum::kUnspecified;
}

CachedResponse FromProto(const v1::CachedResponse& response) {
  CachedResponse out;
  if (response.has_http_status()) out.status = CachedResponse::HttpStatus{response.http_status()};
  if (response.has_grpc_code()) out.status = CachedResponse::GrpcCode{response.grpc_code()};
  out.status_message = response.status_message();
  out.content_type = response.content_type();
  for (const v1::MetadataEntry& entry : response.metadata()) {
    out.metadata.emplace_back(entry.name(), entry.value());
  }
  if (response.has_body()) out.body = response.body();
  out.body_omitted = response.body_omitted();
  out.body_size = response.body_size();
  out.metadata_omitted = response.metadata_omitted();
  return out;
}

Lease FromProto(const v1::Lease& lease) {
  Lease out;
  out.fencing_token = lease.fencing_token();
  out.expire_time = ToTime(lease.expire_time());
  out.remaining = FromProtoDown(lease.remaining());
  out.attempt = lease.attempt();
  if (lease.has_progress()) out.progress = lease.progress();
  return out;
}

void SetTimes(const v1::Operation& operation, Operation* out) {
  if (operation.has_create_time()) out->create_time = ToTime(operation.create_time());
  if (operation.has_update_time()) out->update_time = ToTime(operation.update_time());
  if (operation.has_lease_expire_time()) {
    out->lease_expire_time = ToTime(operation.lease_expire_time());
  }
  if (operation.has_complete_time()) out->complete_time = ToTime(operation.complete_time());
  if (operation.has_next_attempt_time()) {
    out->next_attempt_time = ToTime(operation.next_attempt_time());
  }
  if (operation.has_protection_expire_time()) {
    out->protection_expire_time = ToTime(operation.protection_expire_time());
  }
}

Operation FromProto(const v1::Operation& operation) {
  Operation out;
  out.id = {operation.id().namespace_(), operation.id().scope(), operation.id().key()};
  out.state = ToEnum<OperationState>(operation.state());
  out.fingerprint = {operation.fingerprint().algorithm(), operation.fingerprint().digest()};
  out.owner = {operation.owner().worker(), operation.owner().operation_ref(),
               operation.owner().traceparent()};
  out.labels.assign(operation.labels().begin(), operation.labels().end());
  std::sort(out.labels.begin(), out.labels.end());
  out.attempt = operation.attempt();
  out.dispatched = operation.dispatched();
  SetTimes(operation, &out);
  out.verdict = ToEnum<Verdict>(operation.verdict());
  out.unresolved_cause = ToEnum<UnresolvedCause>(operation.unresolved_cause());
  out.provider_request_id = operation.provider_request_id();
  if (operation.has_response()) out.response = FromProto(operation.response());
  out.etag = operation.etag();
  return out;
}

template <typename Message>
std::optional<Duration> RetryAfter(const Message& message) {
  if (!message.has_retry_after()) return std::nullopt;
  return FromProtoUp(message.retry_after());
}

}  // namespace

std::string MendedText(std::string_view text, size_t max_bytes) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const std::string_view next = length == 0 ? kReplacement : text.substr(0, length);
    if (out.size() + next.size() > max_bytes) break;
    out.append(next);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

Duration FromProtoUp(const google::protobuf::Duration& duration) {
  return Millis(duration.seconds(), -FloorDiv(-int64_t{duration.nanos()}, kNanosPerMilli));
}

// --- Checks --------------------------------------------------------------------------------------

absl::Status CheckTexts(const ReserveRequest& request) {
  TextCheck check;
  check(request.id)(request.fingerprint)("attempt_id", request.attempt_id)(request.owner);
  for (const auto& [name, value] : request.labels) check("labels", name)("labels", value);
  return check.Result();
}

absl::Status CheckTexts(const RenewRequest& request) {
  TextCheck check;
  check(request.id);
  if (request.owner.has_value()) check(*request.owner);
  return check.Result();
}

absl::Status CheckTexts(const CompleteRequest& request) { return TextCheck()(request.id).Result(); }

absl::Status CheckTexts(const ReleaseRequest& request) { return TextCheck()(request.id).Result(); }

absl::Status CheckTexts(const MarkUnresolvedRequest& request) {
  return TextCheck()(request.id).Result();
}

absl::Status CheckTexts(const GetOperationRequest& request) {
  return TextCheck()(request.id)(request.fingerprint).Result();
}

absl::Status CheckTexts(const ResolveRequest& request) {
  return TextCheck()(request.id)("actor", request.actor)("etag", request.etag).Result();
}

absl::Status CheckTexts(const ListOperationsRequest& request) {
  return TextCheck()("namespace", request.name_space)("scope", request.scope)(
             "key_prefix", request.key_prefix)("operation_ref", request.operation_ref)(
             "page_token", request.page_token)
      .Result();
}

// --- Requests ------------------------------------------------------------------------------------

v1::ReserveRequest ToProto(const ReserveRequest& request) {
  v1::ReserveRequest out;
  Set(request.id, out.mutable_id());
  if (request.fingerprint.has_value()) Set(*request.fingerprint, out.mutable_fingerprint());
  out.set_attempt_id(request.attempt_id);
  if (request.lease_duration.has_value()) {
    Set(*request.lease_duration, out.mutable_lease_duration());
  }
  if (request.wait_duration != Duration(0)) {
    Set(request.wait_duration, out.mutable_wait_duration());
  }
  if (request.owner != Owner()) Set(request.owner, out.mutable_owner());
  for (const auto& [name, value] : request.labels) (*out.mutable_labels())[name] = value;
  if (request.operation_age.has_value()) Set(*request.operation_age, out.mutable_operation_age());
  out.set_dispatch_later(request.dispatch_later);
  out.set_start_over(request.start_over);
  return out;
}

v1::RenewRequest ToProto(const RenewRequest& request) {
  v1::RenewRequest out;
  Set(request.id, out.mutable_id());
  out.set_fencing_token(request.fencing_token);
  if (request.lease_duration.has_value()) {
    Set(*request.lease_duration, out.mutable_lease_duration());
  }
  if (request.progress.has_value()) out.set_progress(*request.progress);
  out.set_dispatched(request.dispatched);
  if (request.owner.has_value()) Set(*request.owner, out.mutable_owner());
  return out;
}

v1::CompleteRequest ToProto(const CompleteRequest& request) {
  v1::CompleteRequest out;
  Set(request.id, out.mutable_id());
  out.set_fencing_token(request.fencing_token);
  out.set_verdict(static_cast<v1::Verdict>(request.verdict));
  if (request.response.has_value()) Set(*request.response, out.mutable_response());
  out.set_provider_request_id(MendedText(request.provider_request_id, kMaxShortTextBytes));
  if (request.retention.has_value()) Set(*request.retention, out.mutable_retention());
  return out;
}

v1::ReleaseRequest ToProto(const ReleaseRequest& request) {
  v1::ReleaseRequest out;
  Set(request.id, out.mutable_id());
  out.set_fencing_token(request.fencing_token);
  out.set_detail(MendedText(request.detail, kMaxLongTextBytes));
  return out;
}

v1::MarkUnresolvedRequest ToProto(const MarkUnresolvedRequest& request) {
  v1::MarkUnresolvedRequest out;
  Set(request.id, out.mutable_id());
  out.set_fencing_token(request.fencing_token);
  out.set_cause(static_cast<v1::UnresolvedCause>(request.cause));
  out.set_detail(MendedText(request.detail, kMaxLongTextBytes));
  out.set_provider_request_id(MendedText(request.provider_request_id, kMaxShortTextBytes));
  if (request.retry_after.has_value()) Set(*request.retry_after, out.mutable_retry_after());
  out.set_reconcile_first(request.reconcile_first);
  return out;
}

v1::GetOperationRequest ToProto(const GetOperationRequest& request) {
  v1::GetOperationRequest out;
  Set(request.id, out.mutable_id());
  if (request.wait_duration != Duration(0)) {
    Set(request.wait_duration, out.mutable_wait_duration());
  }
  if (request.fingerprint.has_value()) Set(*request.fingerprint, out.mutable_fingerprint());
  return out;
}

v1::ResolveOperationRequest ToProto(const ResolveRequest& request) {
  v1::ResolveOperationRequest out;
  Set(request.id, out.mutable_id());
  switch (request.resolution) {
    case ResolveRequest::Resolution::kCompleted:
      out.mutable_completed()->set_verdict(static_cast<v1::Verdict>(request.verdict));
      if (request.response.has_value()) {
        Set(*request.response, out.mutable_completed()->mutable_response());
      }
      break;
    case ResolveRequest::Resolution::kNotExecuted:
      out.mutable_not_executed();
      break;
    case ResolveRequest::Resolution::kAbandoned:
      out.mutable_abandoned();
      break;
  }
  out.set_actor(request.actor);
  out.set_reason(MendedText(request.reason, kMaxLongTextBytes));
  out.set_provider_request_id(MendedText(request.provider_request_id, kMaxShortTextBytes));
  out.set_etag(request.etag);
  return out;
}

v1::ListOperationsRequest ToProto(const ListOperationsRequest& request) {
  v1::ListOperationsRequest out;
  out.set_namespace_(request.name_space);
  out.set_scope(request.scope);
  out.set_key_prefix(request.key_prefix);
  out.set_operation_ref(request.operation_ref);
  for (const OperationState state : request.states) {
    out.add_states(static_cast<v1::OperationState>(state));
  }
  if (request.min_age != Duration(0)) Set(request.min_age, out.mutable_min_age());
  out.set_page_size(static_cast<int32_t>(std::min(request.page_size, kMaxListPage)));
  out.set_page_token(request.page_token);
  return out;
}

// --- Responses -----------------------------------------------------------------------------------

ReserveResponse FromProto(const v1::ReserveResponse& response) {
  ReserveResponse out;
  out.outcome = ToEnum<ReserveOutcome>(response.outcome());
  out.next_step = ToEnum<NextStep>(response.next_step());
  if (response.has_lease()) out.lease = FromProto(response.lease());
  if (response.has_operation()) out.operation = FromProto(response.operation());
  out.retry_after = RetryAfter(response);
  out.detail = response.detail();
  return out;
}

RenewResponse FromProto(const v1::RenewResponse& response) {
  return RenewResponse{.lease = FromProto(response.lease())};
}

CompleteResponse FromProto(const v1::CompleteResponse& response) {
  return CompleteResponse{.operation = FromProto(response.operation()),
                          .already_complete = response.already_complete()};
}

ReleaseResponse FromProto(const v1::ReleaseResponse& response) {
  return ReleaseResponse{.state = ToEnum<OperationState>(response.state())};
}

MarkUnresolvedResponse FromProto(const v1::MarkUnresolvedResponse& response) {
  return MarkUnresolvedResponse{.operation = FromProto(response.operation()),
                                .next_step = ToEnum<NextStep>(response.next_step()),
                                .retry_after = RetryAfter(response)};
}

GetOperationResponse FromProto(const v1::GetOperationResponse& response) {
  return GetOperationResponse{.operation = FromProto(response.operation()),
                              .next_step = ToEnum<NextStep>(response.next_step()),
                              .retry_after = RetryAfter(response)};
}

Operation FromProto(const v1::ResolveOperationResponse& response) {
  return FromProto(response.operation());
}

ListOperationsResponse FromProto(const v1::ListOperationsResponse& response) {
  ListOperationsResponse out;
  for (const v1::Operation& operation : response.operations()) {
    out.operations.push_back(FromProto(operation));
  }
  out.next_page_token = response.next_page_token();
  return out;
}

}  // namespace idempotency::internal
