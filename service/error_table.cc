#include "service/error_table.h"

#include <cstdint>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "service/wire_time.h"

namespace idempotency::service {
namespace {

using core::Reason;
using grpc::StatusCode;

constexpr core::Duration kNoRetry{0};
constexpr core::Duration kSoon = std::chrono::seconds(1);

struct Row {
  Reason reason;
  StatusCode code;
  std::string_view name;
  // Where the refusal itself does not say when to try again; kNoRetry: no time is given.
  core::Duration retry_after;
  std::string_view message;
};

// By number of the reason. A stale owner gets FAILED_PRECONDITION, because some clients repeat
// ABORTED by themselves; UNAVAILABLE stands only where a blind repeat is safe.
constexpr Row kRows[] = {
    {Reason::kNone, StatusCode::INTERNAL, "ERROR_REASON_UNSPECIFIED", kNoRetry,
     "The service failed in a way it does not know; report this, and read the operation before "
     "going on."},
    {Reason::kInvalidField, StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", kNoRetry,
     "The request is not valid; correct the named field and send it again."},
    {Reason::kNamespaceNotFound, StatusCode::NOT_FOUND, "NAMESPACE_NOT_FOUND", kNoRetry,
     "This namespace is not configured; correct its name, or add it to the service's "
     "configuration."},
    {Reason::kOperationNotFound, StatusCode::NOT_FOUND, "OPERATION_NOT_FOUND", kNoRetry,
     "Nothing is recorded for this operation; check namespace, scope and key."},
    {Reason::kAccessDenied, StatusCode::PERMISSION_DENIED, "ACCESS_DENIED", kNoRetry,
     "This caller may not do this in this namespace and scope; ask its operators for access."},
    {Reason::kStaleFencingToken, StatusCode::FAILED_PRECONDITION, "STALE_FENCING_TOKEN", kNoRetry,
     "Another attempt or a resolution has superseded this fencing token; stop, and read the "
     "operation to see what holds."},
    {Reason::kUnknownFencingToken, StatusCode::INVALID_ARGUMENT, "UNKNOWN_FENCING_TOKEN", kNoRetry,
     "This fencing token was never given for this key; send the one from the Reserve answer."},
    {Reason::kLeaseLapsed, StatusCode::FAILED_PRECONDITION, "LEASE_LAPSED", kNoRetry,
     "The lease has ended; start nothing more, and report what happened with Complete, Release "
     "or MarkUnresolved."},
    {Reason::kAlreadyComplete, StatusCode::FAILED_PRECONDITION, "ALREADY_COMPLETE", kNoRetry,
     "The operation has ended with other content, which stands; read it with GetOperation."},
    {Reason::kAttemptFinished, StatusCode::FAILED_PRECONDITION, "ATTEMPT_FINISHED", kNoRetry,
     "This attempt has ended; reserve again with a new attempt_id."},
    {Reason::kOutcomeUnknown, StatusCode::FAILED_PRECONDITION, "OUTCOME_UNKNOWN", kNoRetry,
     "The operation was marked unresolved and cannot be released; settle it with "
     "ResolveOperation."},
    {Reason::kLeaseLive, StatusCode::FAILED_PRECONDITION, "LEASE_LIVE", kSoon,
     "An owner holds a live lease; try again when it has ended."},
    {Reason::kNotSettled, StatusCode::FAILED_PRECONDITION, "NOT_SETTLED", kSoon,
     "The owner's call may still arrive; try again when the namespace's settle_duration has "
     "passed."},
    {Reason::kWrongState, StatusCode::FAILED_PRECONDITION, "WRONG_STATE", kNoRetry,
     "The operation's state does not allow this; inspect it, and use force only where it is "
     "open and may be forgotten."},
    {Reason::kEtagMismatch, StatusCode::ABORTED, "ETAG_MISMATCH", kNoRetry,
     "The operation has changed since the etag was read; read it again and decide anew."},
    {Reason::kQuotaExceeded, StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", kSoon,
     "The quota for new keys is used up; try again later with the same ids."},
    {Reason::kOverloaded, StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", kSoon,
     "The service has more to do than it can take; send the same call again later."},
    {Reason::kStoreFull, StatusCode::RESOURCE_EXHAUSTED, "STORE_FULL", kNoRetry,
     "The store has no room for new keys; free or add space, and send the same call again."},
    {Reason::kStoreUnavailable, StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE", kSoon,
     "The store cannot answer, and may have applied the call; send the same call again."},
    {Reason::kRecordUnreadable, StatusCode::DATA_LOSS, "RECORD_UNREADABLE", kNoRetry,
     "What is stored for this key cannot be read; find out whether the effect happened, then "
     "remove it with a forced DeleteOperation."},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].reason) != i) return false;
  }
  return std::size(kRows) == static_cast<size_t>(Reason::kRecordUnreadable) + 1;
}
static_assert(InOrder(), "one row a reason, in the order of their numbers");

const Row& RowOf(Reason reason) { return kRows[static_cast<size_t>(reason)]; }

std::string Sentence(const Failure& failure) {
  return failure.message.empty() ? std::string(MessageOf(failure.reason)) : failure.message;
}

}  // namespace

Failure ToFailure(const core::Refusal& refusal) {
  return Failure{refusal.reason, std::string(refusal.field), {}, refusal.retry_after};
}

Failure ToFailure(const FieldError& error) {
  return Failure{Reason::kInvalidField, error.field, error.message, std::nullopt};
}

std::string_view ReasonName(Reason reason) { return RowOf(reason).name; }

StatusCode CodeOf(Reason reason) { return RowOf(reason).code; }

StatusCode CodeOf(const Failure& failure) {
  return failure.unauthenticated ? StatusCode::UNAUTHENTICATED : CodeOf(failure.reason);
}

std::string_view MessageOf(Reason reason) { return RowOf(reason).message; }

std::optional<core::Duration> RetryAfter(const Failure& failure) {
  if (failure.retry_after) return failure.retry_after;
  const core::Duration usual = RowOf(failure.reason).retry_after;
  return usual == kNoRetry ? std::nullopt : std::optional(usual);
}

grpc::Status ToStatus(const Failure& failure) {
  const std::string message = Sentence(failure);
  google::rpc::Status details;
  details.set_code(CodeOf(failure));
  details.set_message(message);

  google::rpc::ErrorInfo info;
  info.set_reason(std::string(ReasonName(failure.reason)));
  info.set_domain(std::string(kErrorDomain));
  details.add_details()->PackFrom(info);
  if (!failure.field.empty()) {
    google::rpc::BadRequest bad_request;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(failure.field);
    violation->set_description(message);
    details.add_details()->PackFrom(bad_request);
  }
  if (const auto retry_after = RetryAfter(failure)) {
    google::rpc::RetryInfo retry;
    SetDuration(*retry_after, retry.mutable_retry_delay());
    details.add_details()->PackFrom(retry);
  }
  return grpc::Status(CodeOf(failure), message, details.SerializeAsString());
}

v1::Error ToError(const Failure& failure) {
  v1::Error error;
  error.set_code(CodeOf(failure));
  error.set_reason(static_cast<v1::ErrorReason>(failure.reason));
  error.set_message(Sentence(failure));
  error.set_field(failure.field);
  if (const auto retry_after = RetryAfter(failure)) {
    SetDuration(*retry_after, error.mutable_retry_after());
  }
  return error;
}

}  // namespace idempotency::service
