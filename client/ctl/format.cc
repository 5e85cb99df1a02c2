#include "client/ctl/format.h"

#include <map>
#include <string_view>

#include "client/ctl/body_file.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/enum_text.h"
#include "client/ctl/printable.h"
#include "client/ctl/table.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

constexpr size_t kPreviewCharacters = 200;

// A timestamp that is not set is the epoch, and is not shown.
std::string Age(const google::protobuf::Timestamp& time, absl::Time now) {
  if (time.seconds() == 0 && time.nanos() == 0) return "";
  return AgeText(FromProto(time), now);
}

std::string Number(uint64_t value) { return value == 0 ? "" : std::to_string(value); }

template <typename E>
std::string Choice(E value) {
  return static_cast<int>(value) == 0 ? "" : EnumText(value);
}

std::string Labels(const v1::Operation& operation) {
  // Sorted: a map of the API has no order of its own.
  const std::map<std::string, std::string> sorted(operation.labels().begin(),
                                                  operation.labels().end());
  std::string text;
  for (const auto& [name, value] : sorted) {
    text += (text.empty() ? "" : ", ") + name + "=" + value;
  }
  return text;
}

std::string BodyText(const v1::CachedResponse& response) {
  if (response.body_omitted()) {
    return "not kept (" + std::to_string(response.body_size()) + " bytes)";
  }
  if (!response.has_body()) return "none";
  if (response.body().empty()) return "empty";
  const std::string size = std::to_string(response.body().size()) + " bytes";
  if (!IsUtf8(response.body())) return size + ", not text (--body-out=FILE writes it)";
  return size + ": " + Preview(response.body(), kPreviewCharacters);
}

std::string StatusText(const v1::CachedResponse& response) {
  switch (response.status_case()) {
    case v1::CachedResponse::kHttpStatus:
      return "HTTP " + std::to_string(response.http_status());
    case v1::CachedResponse::kGrpcCode:
      return "gRPC " + StatusCodeName(response.grpc_code());
    case v1::CachedResponse::STATUS_NOT_SET:
      return "";
  }
  return "";
}

void AddResponse(const v1::CachedResponse& response, Fields* fields) {
  fields->Add("answer status", StatusText(response));
  fields->Add("answer message", response.status_message());
  fields->Add("content type", response.content_type());
  for (const v1::MetadataEntry& entry : response.metadata()) {
    fields->Add("answer header", entry.name() + ": " + entry.value());
  }
  if (response.metadata_omitted()) fields->Add("answer header", "(some were not kept)");
  fields->Add("answer body", BodyText(response));
}

void AddWho(const v1::Operation& operation, Fields* fields) {
  fields->Add("attempt", Number(operation.attempt()));
  fields->Add("dispatched", operation.dispatched() ? "yes" : "");
  fields->Add("worker", operation.owner().worker());
  fields->Add("reference", operation.owner().operation_ref());
  fields->Add("traceparent", operation.owner().traceparent());
  fields->Add("labels", Labels(operation));
  if (!operation.fingerprint().digest().empty()) {
    fields->Add("fingerprint", FormatFingerprint(operation.fingerprint()));
  } else {
    fields->Add("fingerprint", operation.fingerprint().algorithm());
  }
  fields->Add("provider id", operation.provider_request_id());
}

void AddTimes(const v1::Operation& operation, absl::Time now, Fields* fields) {
  fields->Add("created", Age(operation.create_time(), now));
  fields->Add("updated", Age(operation.update_time(), now));
  fields->Add("lease ends", Age(operation.lease_expire_time(), now));
  fields->Add("completed", Age(operation.complete_time(), now));
  fields->Add("answer kept until", Age(operation.response_expire_time(), now));
  fields->Add("forgotten", Age(operation.forget_time(), now));
  fields->Add("protected until", Age(operation.protection_expire_time(), now));
  fields->Add("next attempt", Age(operation.next_attempt_time(), now));
}

Fields OperationFields(const v1::Operation& operation, absl::Time now) {
  Fields fields;
  fields.Add("operation", FormatId(operation.id()));
  fields.Add("state", Choice(operation.state()));
  fields.Add("verdict", Choice(operation.verdict()));
  fields.Add("cause", Choice(operation.unresolved_cause()));
  AddWho(operation, &fields);
  AddTimes(operation, now, &fields);
  if (operation.has_response()) AddResponse(operation.response(), &fields);
  fields.Add("etag", operation.etag());
  return fields;
}

std::string FormatHistory(const v1::Operation& operation, absl::Time now) {
  Table table({"TIME", "EVENT", "ATTEMPT", "ACTOR", "PROVIDER ID", "DETAIL"});
  for (const v1::Event& event : operation.history()) {
    table.Add({Age(event.time(), now), EnumText(event.kind()), Number(event.attempt()),
               event.actor(), event.provider_request_id(), event.detail()});
  }
  return table.empty() ? "" : "history\n" + table.ToString(2);
}

// What a list shows beside the state: the verdict of what ended, the cause of what is unknown.
std::string Note(const v1::Operation& operation) {
  const std::string verdict = Choice(operation.verdict());
  return verdict.empty() ? Choice(operation.unresolved_cause()) : verdict;
}

std::string Headline(v1::ReserveOutcome outcome) {
  switch (static_cast<int>(outcome)) {
    case v1::RESERVE_OUTCOME_ACQUIRED:
      return "the operation is yours until its lease ends";
    case v1::RESERVE_OUTCOME_ALREADY_HELD:
      return "this attempt acquired it before, and its lease is live";
    case v1::RESERVE_OUTCOME_IN_PROGRESS:
      return "another attempt holds it";
    case v1::RESERVE_OUTCOME_COMPLETED:
      return "it has ended";
    case v1::RESERVE_OUTCOME_UNRESOLVED:
      return "nobody knows whether it happened, and no attempt may be made now";
    case v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH:
      return "the key belongs to a different request; nothing was changed";
    case v1::RESERVE_OUTCOME_EXPIRED:
      return "it completed once, and its answer is no longer kept; nothing was changed";
    case v1::RESERVE_OUTCOME_TOO_OLD:
      return "nothing is known of this key, and it is older than what is remembered";
  }
  return "an outcome that this tool does not know";
}

void AddLease(const v1::Lease& lease, absl::Time now, Fields* fields) {
  fields->Add("fencing token", Number(lease.fencing_token()));
  fields->Add("attempt", Number(lease.attempt()));
  if (lease.has_remaining()) {
    const absl::Duration remaining = FromProto(lease.remaining());
    fields->Add("lease ends", remaining > absl::ZeroDuration() ? AgeText(now + remaining, now)
                                                               : Age(lease.expire_time(), now));
  } else {
    fields->Add("lease ends", Age(lease.expire_time(), now));
  }
  if (lease.has_progress()) {
    fields->Add("progress", std::to_string(lease.progress().size()) +
                                " bytes: " + Preview(lease.progress(), kPreviewCharacters));
  }
}

std::string Span(const google::protobuf::Duration& duration) {
  return DurationText(FromProto(duration));
}

void AddProvider(const v1::ProviderContract& provider, Fields* fields) {
  fields->Add("provider", provider.name());
  fields->Add("provider API version", provider.api_version());
  for (const std::string& endpoint : provider.endpoints()) fields->Add("endpoint", endpoint);
  fields->Add("keys are unique within", provider.account_scope());
  fields->Add("key location", provider.key_location());
  fields->Add("provider's key maximum", Number(provider.key_max_bytes()));
  fields->Add("on mismatch", provider.on_mismatch());
  fields->Add("on concurrent", provider.on_concurrent());
  fields->Add("on expiry", provider.on_expiry());
  fields->Add("source", provider.source());
  fields->Add("verified", provider.verified_date());
}

void AddUnknownOutcome(const v1::Namespace& policy, Fields* fields) {
  fields->Add("unknown outcome", Choice(policy.unknown_outcome()));
  if (policy.has_protection_window()) {
    fields->Add("protection window", Span(policy.protection_window()));
  }
  fields->Add("attempts at most", Number(policy.max_attempts()));
  if (policy.has_initial_backoff()) fields->Add("first backoff", Span(policy.initial_backoff()));
  if (policy.has_max_backoff()) fields->Add("longest backoff", Span(policy.max_backoff()));
  if (policy.has_settle_duration()) fields->Add("settles after", Span(policy.settle_duration()));
}

}  // namespace

std::string FormatId(const v1::OperationId& id) {
  return ShellQuote(id.namespace_()) + " " + ShellQuote(id.scope()) + " " + ShellQuote(id.key());
}

std::string FormatOperation(const v1::Operation& operation, absl::Time now) {
  return OperationFields(operation, now).ToString() + FormatHistory(operation, now);
}

std::string FormatOperationList(const std::vector<v1::Operation>& operations, absl::Time now) {
  Table table({"STATE", "NOTE", "SCOPE", "KEY", "ATTEMPT", "UPDATED", "WORKER", "REFERENCE"});
  for (const v1::Operation& operation : operations) {
    table.Add({Choice(operation.state()), Note(operation), operation.id().scope(),
               operation.id().key(), Number(operation.attempt()), Age(operation.update_time(), now),
               operation.owner().worker(), operation.owner().operation_ref()});
  }
  return table.ToString();
}

std::string FormatLease(const v1::Lease& lease, absl::Time now) {
  Fields fields;
  AddLease(lease, now, &fields);
  return fields.ToString();
}

std::string FormatReserve(const v1::ReserveResponse& response, const v1::OperationId& id,
                          const std::string& attempt_id, absl::Time now) {
  std::string text = EnumText(response.outcome()) + ": " + Headline(response.outcome()) + "\n";
  Fields fields;
  if (response.has_lease()) {
    fields.Add("operation", FormatId(id));
    AddLease(response.lease(), now, &fields);
    fields.Add("attempt id", attempt_id);
  } else if (response.has_operation()) {
    fields = OperationFields(response.operation(), now);
  } else {
    fields.Add("operation", FormatId(id));
  }
  fields.Add("detail", response.detail());
  return text + fields.ToString();
}

std::string FormatNamespaceList(const std::vector<v1::Namespace>& namespaces) {
  Table table({"NAME", "UNKNOWN OUTCOME", "LEASE", "WAIT", "RETENTION", "MEMORY", "PROVIDER",
               "DESCRIPTION"});
  for (const v1::Namespace& policy : namespaces) {
    table.Add({policy.name(), Choice(policy.unknown_outcome()),
               Span(policy.default_lease_duration()), Span(policy.max_wait_duration()),
               Span(policy.retention()), Span(policy.expired_memory()), policy.provider().name(),
               policy.description()});
  }
  return table.ToString();
}

std::string FormatNamespace(const v1::Namespace& policy) {
  Fields fields;
  fields.Add("name", policy.name());
  fields.Add("description", policy.description());
  fields.Add("scope", policy.scope_optional() ? "optional" : "required");
  fields.Add("fingerprint", policy.fingerprint_optional() ? "optional" : "required");
  fields.Add("lease", Span(policy.default_lease_duration()));
  fields.Add("longest lease", Span(policy.max_lease_duration()));
  fields.Add("longest hold", Span(policy.max_hold_duration()));
  fields.Add("longest wait", Span(policy.max_wait_duration()));
  fields.Add("retention", Span(policy.retention()));
  fields.Add("longest retention", Span(policy.max_retention()));
  fields.Add("expired memory", Span(policy.expired_memory()));
  AddUnknownOutcome(policy, &fields);
  fields.Add("key bytes at most", Number(policy.max_key_bytes()));
  fields.Add("body bytes at most", Number(policy.max_response_bytes()));
  fields.Add("key check", Choice(policy.key_check()));
  AddProvider(policy.provider(), &fields);
  return fields.ToString();
}

std::string FormatError(const CallError& error, const std::string& verb,
                        const std::string& server) {
  std::string text = "idempotencyctl: " + verb + ": ";
  if (error.interrupted) {
    text += "interrupted\n";
  } else if (error.delivery == Delivery::kRefused) {
    const std::string reason = error.reason.empty() ? StatusCodeName(error.code) : error.reason;
    text += "refused: " + Printable(reason) + "\n";
  } else if (error.delivery == Delivery::kNotSent) {
    text += "cannot reach " + Printable(server) + "\n";
  } else {
    const std::string reason = error.reason.empty() ? StatusCodeName(error.code) : error.reason;
    text += "no answer: " + Printable(reason) + "\n";
  }
  Fields fields;
  if (!error.interrupted) fields.Add("message", error.message);
  fields.Add("field", error.field);
  if (error.retry_after) fields.Add("retry after", DurationText(*error.retry_after));
  return text + fields.ToString();
}

}  // namespace idempotency::ctl
