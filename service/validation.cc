#include "service/validation.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "service/digest.h"
#include "service/key_check.h"
#include "service/response.h"
#include "service/text.h"
#include "service/wire_time.h"

namespace idempotency::service {
namespace {

using MaybeError = std::optional<FieldError>;

FieldError Error(std::string_view field, std::string message) {
  return FieldError{std::string(field), std::move(message)};
}

FieldError Required(std::string_view field) {
  return Error(field, absl::StrCat(std::string(field), " is required."));
}

// --- Texts ----------------------------------------------------------------------------------

MaybeError AtMost(std::string_view text, size_t max_bytes, std::string_view field) {
  if (text.size() <= max_bytes) return std::nullopt;
  return Error(field, absl::StrCat(std::string(field), " has ", text.size(),
                                   " bytes; send at most ", max_bytes, "."));
}

MaybeError RequiredText(std::string_view text, size_t max_bytes, std::string_view field) {
  if (text.empty()) return Required(field);
  return AtMost(text, max_bytes, field);
}

MaybeError Characters(std::string_view text, std::string_view field) {
  switch (FindTextFault(text)) {
    case TextFault::kNone:
      return std::nullopt;
    case TextFault::kNotUtf8:
      return Error(field, absl::StrCat(std::string(field), " is not UTF-8; encode it first."));
    case TextFault::kControlCharacter:
      return Error(
          field, absl::StrCat(std::string(field), " holds a control character; send it without."));
  }
  return std::nullopt;
}

// The first error of several checks.
MaybeError FirstOf(std::initializer_list<MaybeError> checks) {
  for (const MaybeError& check : checks) {
    if (check) return check;
  }
  return std::nullopt;
}

bool IsNamespaceByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

// --- Parts of several requests ------------------------------------------------------------------

MaybeError CheckOwner(const v1::Owner& owner) {
  return FirstOf({AtMost(owner.worker(), core::kMaxShortTextBytes, "owner.worker"),
                  AtMost(owner.operation_ref(), core::kMaxShortTextBytes, "owner.operation_ref"),
                  AtMost(owner.traceparent(), core::kMaxShortTextBytes, "owner.traceparent")});
}

core::Owner TakeOwner(v1::Owner* owner) {
  return core::Owner{std::move(*owner->mutable_worker()),
                     std::move(*owner->mutable_operation_ref()),
                     std::move(*owner->mutable_traceparent())};
}

MaybeError CheckFingerprint(const v1::Fingerprint& fingerprint) {
  if (fingerprint.algorithm().empty()) return Required("fingerprint.algorithm");
  const size_t bytes = fingerprint.digest().size();
  if (bytes < core::kMinFingerprintDigestBytes || bytes > core::kMaxFingerprintDigestBytes) {
    return Error("fingerprint.digest",
                 absl::StrCat("fingerprint.digest has ", bytes, " bytes; send ",
                              core::kMinFingerprintDigestBytes, " to ",
                              core::kMaxFingerprintDigestBytes, "."));
  }
  return AtMost(fingerprint.algorithm(), core::kMaxFingerprintAlgorithmBytes,
                "fingerprint.algorithm");
}

core::Fingerprint TakeFingerprint(v1::Fingerprint* fingerprint) {
  return core::Fingerprint{std::move(*fingerprint->mutable_algorithm()),
                           std::move(*fingerprint->mutable_digest())};
}

// Finishing verbs take what such a span comes closest to.
MaybeError WellFormed(const google::protobuf::Duration& duration, std::string_view field) {
  if (IsWellFormed(duration)) return std::nullopt;
  return Error(field, absl::StrCat(std::string(field),
                                   " is not a valid google.protobuf.Duration; send seconds and "
                                   "nanos of one sign, with nanos of less than a second."));
}

Checked<core::Duration> CheckLease(bool given, const google::protobuf::Duration& duration,
                                   const core::Policy& policy) {
  if (!given) return policy.default_lease;
  if (MaybeError error = WellFormed(duration, "lease_duration")) return *std::move(error);
  const Span span = ToSpan(duration);
  if (span.negative || span.length == core::Duration::zero()) {
    return Error("lease_duration",
                 "lease_duration must be above zero; leave it unset for the namespace's default.");
  }
  if (span.length > policy.max_lease) {
    return Error(
        "lease_duration",
        absl::StrCat("lease_duration is longer than the namespace allows; ask for at most ",
                     policy.max_lease.count(), " ms and renew."));
  }
  return span.length;
}

MaybeError CheckLabels(const v1::ReserveRequest& request) {
  if (request.labels().size() > core::kMaxLabels) {
    return Error("labels", absl::StrCat("There are ", request.labels().size(),
                                        " labels; send at most ", core::kMaxLabels, "."));
  }
  size_t bytes = 0;
  for (const auto& [name, value] : request.labels()) {
    if (name.empty()) return Error("labels", "A label has an empty name; give each one a name.");
    bytes += name.size() + value.size();
  }
  if (bytes <= core::kMaxLabelBytes) return std::nullopt;
  return Error("labels", absl::StrCat("The labels have ", bytes, " bytes together; send at most ",
                                      core::kMaxLabelBytes, "."));
}

core::Labels ToLabels(const v1::ReserveRequest& request) {
  core::Labels labels(request.labels().begin(), request.labels().end());
  std::sort(labels.begin(), labels.end());
  return labels;
}

MaybeError CheckAttemptId(std::string_view attempt_id) {
  if (attempt_id.empty()) return Required("attempt_id");
  if (attempt_id.size() >= core::kMinAttemptIdBytes &&
      attempt_id.size() <= core::kMaxAttemptIdBytes) {
    return std::nullopt;
  }
  return Error(
      "attempt_id",
      absl::StrCat("attempt_id has ", attempt_id.size(), " bytes; send ", core::kMinAttemptIdBytes,
                   " to ", core::kMaxAttemptIdBytes, " random ones, made for this attempt."));
}

MaybeError CheckToken(uint64_t token) {
  if (token != 0) return std::nullopt;
  return Error("fencing_token", "fencing_token is required; send the one that Reserve gave.");
}

Checked<core::Verdict> CheckVerdict(v1::Verdict verdict, std::string_view field) {
  if (verdict == v1::VERDICT_SUCCEEDED) return core::Verdict::kSucceeded;
  if (verdict == v1::VERDICT_FAILED) return core::Verdict::kFailed;
  return Error(field, absl::StrCat(std::string(field), " must be SUCCEEDED or FAILED."));
}

// The caller's own negative span has no meaning that could be guessed.
Checked<core::Duration> CheckNotNegative(const google::protobuf::Duration& duration,
                                         std::string_view field) {
  if (MaybeError error = WellFormed(duration, field)) return *std::move(error);
  const Span span = ToSpan(duration);
  if (span.negative) {
    return Error(field, absl::StrCat(std::string(field), " must not be negative."));
  }
  return span.length;
}

core::UnresolvedCause ToCause(v1::UnresolvedCause cause) {
  switch (cause) {
    case v1::UNRESOLVED_CAUSE_TIMEOUT:
      return core::UnresolvedCause::kTimeout;
    case v1::UNRESOLVED_CAUSE_CONNECTION_LOST:
      return core::UnresolvedCause::kConnectionLost;
    case v1::UNRESOLVED_CAUSE_SERVER_ERROR:
      return core::UnresolvedCause::kServerError;
    case v1::UNRESOLVED_CAUSE_OWNER_CANCELLED:
      return core::UnresolvedCause::kOwnerCancelled;
    default:
      // Unset, unknown to this version, or LEASE_LAPSED, which only the service sets.
      return core::UnresolvedCause::kOther;
  }
}

std::string Cut(std::string_view text, size_t max_bytes) {
  return std::string(CutText(text, max_bytes));
}

core::Duration UpTo(const google::protobuf::Duration& duration, core::Duration max) {
  return std::min(ToSpan(duration).length, max);
}

}  // namespace

// --- Ids --------------------------------------------------------------------------------------

std::optional<FieldError> CheckNamespaceName(std::string_view name, std::string_view field) {
  if (MaybeError error = RequiredText(name, core::kMaxNamespaceBytes, field)) return error;
  const bool starts_well = name.front() >= 'a' && name.front() <= 'z';
  if (starts_well && std::all_of(name.begin(), name.end(), IsNamespaceByte)) return std::nullopt;
  return Error(field, absl::StrCat(std::string(field),
                                   " must start with a letter and hold only [a-z0-9._-]."));
}

Checked<core::Key> CheckId(v1::OperationId* id) {
  if (MaybeError error = FirstOf({CheckNamespaceName(id->namespace_(), "id.namespace"),
                                  AtMost(id->scope(), core::kMaxScopeBytes, "id.scope"),
                                  Characters(id->scope(), "id.scope"),
                                  RequiredText(id->key(), core::kMaxKeyBytes, "id.key"),
                                  Characters(id->key(), "id.key")})) {
    return *std::move(error);
  }
  return core::Key{std::move(*id->mutable_namespace_()), std::move(*id->mutable_scope()),
                   std::move(*id->mutable_key())};
}

std::optional<FieldError> CheckNewKey(const core::Key& key, const core::Policy& policy) {
  if (key.scope.empty() && !policy.scope_optional) return Required("id.scope");
  if (MaybeError error = AtMost(key.key, policy.max_key_bytes, "id.key")) return error;
  if (policy.key_check != core::KeyCheck::kRefuse) return std::nullopt;
  const std::string_view looks_like = LooksSensitive(key.key);
  if (looks_like.empty()) return std::nullopt;
  return Error("id.key", absl::StrCat("id.key looks like ", std::string(looks_like),
                                      "; make a key that says nothing about its owner."));
}

// --- The owner's verbs --------------------------------------------------------------------------

Checked<core::ReserveCommand> CheckReserve(v1::ReserveRequest* request,
                                           const core::Policy& policy) {
  if (!request->has_fingerprint() && !policy.fingerprint_optional) return Required("fingerprint");
  if (request->has_fingerprint()) {
    if (MaybeError error = CheckFingerprint(request->fingerprint())) return *std::move(error);
  }
  if (MaybeError error =
          FirstOf({CheckAttemptId(request->attempt_id()), CheckOwner(request->owner()),
                   CheckLabels(*request), WellFormed(request->operation_age(), "operation_age")})) {
    return *std::move(error);
  }
  Checked<core::Duration> lease =
      CheckLease(request->has_lease_duration(), request->lease_duration(), policy);
  if (!lease.ok()) return lease.error();

  core::ReserveCommand command;
  if (request->has_fingerprint()) {
    command.fingerprint = TakeFingerprint(request->mutable_fingerprint());
  }
  command.attempt_id = DigestAttemptId(request->attempt_id());
  command.lease = lease.value();
  if (request->has_owner()) command.owner = TakeOwner(request->mutable_owner());
  command.labels = ToLabels(*request);
  if (request->has_operation_age()) {
    command.operation_age = ToSpan(request->operation_age()).length;
  }
  command.dispatch_later = request->dispatch_later();
  command.start_over = request->start_over();
  return command;
}

Checked<core::RenewCommand> CheckRenew(v1::RenewRequest* request, const core::Policy& policy) {
  if (MaybeError error = FirstOf({CheckToken(request->fencing_token()),
                                  AtMost(request->progress(), core::kMaxProgressBytes, "progress"),
                                  CheckOwner(request->owner())})) {
    return *std::move(error);
  }
  Checked<core::Duration> lease =
      CheckLease(request->has_lease_duration(), request->lease_duration(), policy);
  if (!lease.ok()) return lease.error();

  core::RenewCommand command;
  command.token = request->fencing_token();
  command.lease = lease.value();
  if (request->has_progress()) command.progress = std::move(*request->mutable_progress());
  command.dispatched = request->dispatched();
  if (request->has_owner()) command.owner = TakeOwner(request->mutable_owner());
  return command;
}

Checked<core::CompleteCommand> CheckComplete(const v1::CompleteRequest& request,
                                             const core::Policy& policy) {
  if (MaybeError error = CheckToken(request.fencing_token())) return *std::move(error);
  const Checked<core::Verdict> verdict = CheckVerdict(request.verdict(), "verdict");
  if (!verdict.ok()) return verdict.error();

  core::CompleteCommand command;
  command.token = request.fencing_token();
  command.verdict = verdict.value();
  if (request.has_response()) {
    command.response = StoreResponse(request.response(), policy.max_response_bytes);
  }
  command.provider_request_id = Cut(request.provider_request_id(), core::kMaxShortTextBytes);
  if (request.has_retention()) command.retention = UpTo(request.retention(), policy.max_retention);
  command.content = DigestContent(request);
  return command;
}

Checked<core::ReleaseCommand> CheckRelease(const v1::ReleaseRequest& request) {
  if (MaybeError error = CheckToken(request.fencing_token())) return *std::move(error);
  return core::ReleaseCommand{request.fencing_token(),
                              Cut(request.detail(), core::kMaxLongTextBytes),
                              DigestContent(request)};
}

Checked<core::MarkUnresolvedCommand> CheckMarkUnresolved(const v1::MarkUnresolvedRequest& request) {
  if (MaybeError error = CheckToken(request.fencing_token())) return *std::move(error);
  core::MarkUnresolvedCommand command;
  command.token = request.fencing_token();
  command.cause = ToCause(request.cause());
  command.detail = Cut(request.detail(), core::kMaxLongTextBytes);
  command.provider_request_id = Cut(request.provider_request_id(), core::kMaxShortTextBytes);
  command.retry_after = UpTo(request.retry_after(), core::kMaxPolicyDuration);
  command.reconcile_first = request.reconcile_first();
  command.content = DigestContent(request);
  return command;
}

Checked<core::GetCommand> CheckGet(v1::GetOperationRequest* request) {
  if (!request->has_fingerprint()) return core::GetCommand{};
  if (MaybeError error = CheckFingerprint(request->fingerprint())) return *std::move(error);
  return core::GetCommand{TakeFingerprint(request->mutable_fingerprint())};
}

Checked<core::Duration> CheckWait(const google::protobuf::Duration& wait,
                                  const core::Policy& policy) {
  Checked<core::Duration> asked = CheckNotNegative(wait, "wait_duration");
  if (asked.ok()) asked.value() = std::min(asked.value(), policy.max_wait);
  return asked;
}

// --- For operators ----------------------------------------------------------------------------

std::optional<FieldError> CheckActorAndReason(std::string_view actor, std::string_view reason,
                                              std::string_view reason_field) {
  return FirstOf({RequiredText(actor, core::kMaxShortTextBytes, "actor"),
                  RequiredText(reason, core::kMaxLongTextBytes, reason_field)});
}

Checked<core::ResolveCommand> CheckResolve(const v1::ResolveOperationRequest& request,
                                           const core::Policy& policy) {
  if (MaybeError error = FirstOf({CheckActorAndReason(request.actor(), request.reason()),
                                  AtMost(request.provider_request_id(), core::kMaxShortTextBytes,
                                         "provider_request_id")})) {
    return *std::move(error);
  }
  core::ResolveCommand command;
  switch (request.resolution_case()) {
    case v1::ResolveOperationRequest::kCompleted: {
      const auto& completed = request.completed();
      const Checked<core::Verdict> verdict = CheckVerdict(completed.verdict(), "completed.verdict");
      if (!verdict.ok()) return verdict.error();
      command.resolution = core::Resolution::kCompleted;
      command.verdict = verdict.value();
      if (completed.has_response()) {
        command.response = StoreResponse(completed.response(), policy.max_response_bytes);
      }
      break;
    }
    case v1::ResolveOperationRequest::kNotExecuted:
      command.resolution = core::Resolution::kNotExecuted;
      break;
    case v1::ResolveOperationRequest::kAbandoned:
      command.resolution = core::Resolution::kAbandoned;
      break;
    case v1::ResolveOperationRequest::RESOLUTION_NOT_SET:
      return Error("resolution",
                   "resolution is required; send one of completed, not_executed and abandoned.");
  }
  command.actor = request.actor();
  command.reason = request.reason();
  command.provider_request_id = request.provider_request_id();
  command.etag = request.etag();
  command.content = DigestContent(request);
  return command;
}

Checked<core::DeleteCommand> CheckDelete(const v1::DeleteOperationRequest& request) {
  if (MaybeError error = CheckActorAndReason(request.actor(), request.reason())) {
    return *std::move(error);
  }
  return core::DeleteCommand{request.force(), request.actor(), request.reason(), request.etag()};
}

Checked<keystore::ListFilter> CheckListFilter(const v1::ListOperationsRequest& request) {
  if (MaybeError error =
          FirstOf({CheckNamespaceName(request.namespace_(), "namespace"),
                   AtMost(request.scope(), core::kMaxScopeBytes, "scope"),
                   AtMost(request.key_prefix(), core::kMaxKeyBytes, "key_prefix"),
                   AtMost(request.operation_ref(), core::kMaxShortTextBytes, "operation_ref")})) {
    return *std::move(error);
  }
  const Checked<core::Duration> min_age = CheckNotNegative(request.min_age(), "min_age");
  if (!min_age.ok()) return min_age.error();

  keystore::ListFilter filter;
  filter.scan.name_space = request.namespace_();
  if (!request.scope().empty()) filter.scan.scope = request.scope();
  filter.scan.key_prefix = request.key_prefix();
  filter.operation_ref = request.operation_ref();
  filter.min_age = min_age.value();
  filter.scan.open_only = request.states_size() > 0;
  for (int i = 0; i < request.states_size(); ++i) {
    const v1::OperationState state = request.states(i);
    if (state < v1::OPERATION_STATE_PENDING || state > v1::OPERATION_STATE_FREED) {
      return Error(absl::StrCat("states[", i, "]"), "states must name states of operations.");
    }
    filter.states.push_back(static_cast<core::State>(state));
    const bool open =
        state == v1::OPERATION_STATE_PENDING || state == v1::OPERATION_STATE_UNRESOLVED;
    filter.scan.open_only = filter.scan.open_only && open;
  }
  return filter;
}

Checked<size_t> CheckPageSize(int32_t page_size) {
  if (page_size < 0) return Error("page_size", "page_size must not be negative.");
  if (page_size == 0) return size_t{core::kDefaultPageSize};
  return std::min<size_t>(static_cast<size_t>(page_size), core::kMaxPageSize);
}

}  // namespace idempotency::service
