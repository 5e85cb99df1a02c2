// The table of idempotency/grpc.h: how a Run without an answer looks to a gRPC caller.
#include <optional>
#include <string>

#include "client/src/grpc/status_details.h"
#include "idempotency/grpc.h"

namespace idempotency {
namespace {

using grpc::StatusCode;
using internal::MakeStatus;

// Where waiting helps and nobody has said how long.
constexpr Duration kSoon = std::chrono::seconds(1);

grpc::Status Later(StatusCode code, std::string_view reason, const RunResult& run,
                   const char* message) {
  return MakeStatus(code, reason, message, run.retry_after.value_or(kSoon));
}

grpc::Status Never(StatusCode code, std::string_view reason, const char* message) {
  return MakeStatus(code, reason, message, std::nullopt);
}

grpc::Status Unresolved(const RunResult& run) {
  if (run.next_step == NextStep::kReserveAgain) {
    return Later(StatusCode::ABORTED, "UNRESOLVED", run,
                 "Nobody knows yet whether this operation happened; send the same call with the "
                 "same key again after the delay in RetryInfo.");
  }
  return Never(StatusCode::UNKNOWN, "UNRESOLVED",
               "Nobody knows whether this operation happened; do not send it with another key, "
               "and ask what became of it.");
}

grpc::Status Internal() {
  return Never(StatusCode::INTERNAL, "INTERNAL",
               "The call could not be checked for repetition, so nothing was started; report this "
               "with the time it happened.");
}

grpc::Status Unavailable(const RunResult& run) {
  return Later(StatusCode::UNAVAILABLE, "UNAVAILABLE", run,
               "Nothing was started; send the same call with the same key again after the delay "
               "in RetryInfo.");
}

grpc::Status Refused(const RunResult& run) {
  const Refusal refusal = run.refusal.value_or(Refusal{});
  switch (refusal.reason) {
    case ErrorReason::kInvalidField:
      if (refusal.field != "id.key") return Internal();
      return Never(StatusCode::INVALID_ARGUMENT, "KEY_MALFORMED",
                   "The key was refused; send one random key for each operation.");
    case ErrorReason::kAccessDenied:
      return Never(StatusCode::PERMISSION_DENIED, "ACCESS_DENIED",
                   "This operation is not allowed; ask for access to it.");
    case ErrorReason::kQuotaExceeded:
      return Later(StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", run,
                   "There are too many new operations; send the same call with the same key again "
                   "after the delay in RetryInfo.");
    case ErrorReason::kOverloaded:
    case ErrorReason::kStoreFull:
    case ErrorReason::kStoreUnavailable:
      return Unavailable(run);
    case ErrorReason::kRecordUnreadable:
      return Unresolved(RunResult{});
    case ErrorReason::kUnspecified:
    case ErrorReason::kNamespaceNotFound:
    case ErrorReason::kOperationNotFound:
    case ErrorReason::kStaleFencingToken:
    case ErrorReason::kUnknownFencingToken:
    case ErrorReason::kLeaseLapsed:
    case ErrorReason::kAlreadyComplete:
    case ErrorReason::kAttemptFinished:
    case ErrorReason::kOutcomeUnknown:
    case ErrorReason::kLeaseLive:
    case ErrorReason::kNotSettled:
    case ErrorReason::kWrongState:
    case ErrorReason::kEtagMismatch:
      break;
  }
  return Internal();
}

// A failure without a status of its own must not look like a success.
grpc::Status Answered(const RunResult& run) {
  const CachedResponse response = run.response.value_or(CachedResponse{});
  const bool bare = std::holds_alternative<std::monostate>(response.status);
  if (!bare || run.verdict != Verdict::kFailed) return FromCachedResponse(response, nullptr);
  return Never(StatusCode::FAILED_PRECONDITION, "FAILED",
               "The operation ended without the wanted effect; a new try is a new operation with "
               "its own key.");
}

// How the effect's own call ended, where it was made and gave no answer; else OK.
grpc::Status OwnStatus(const RunResult& run) {
  if (run.response.has_value()) return FromCachedResponse(*run.response, nullptr);
  if (run.effect_error.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<StatusCode>(run.effect_error.code()),
                      std::string(run.effect_error.message()));
}

}  // namespace

grpc::Status StatusOfRun(const RunResult& run) {
  if (run.has_answer()) return Answered(run);
  if (grpc::Status own = OwnStatus(run); !own.ok()) return own;
  switch (run.stop) {
    case StopReason::kInProgress:
      return Later(StatusCode::ABORTED, "IN_PROGRESS", run,
                   "The same operation is in progress; send the same call with the same key again "
                   "after the delay in RetryInfo.");
    case StopReason::kUnresolved:
      return Unresolved(run);
    case StopReason::kMismatch:
      return Never(StatusCode::FAILED_PRECONDITION, "MISMATCH",
                   "This key was used for another request; send that request, or a key of its own "
                   "for this one.");
    case StopReason::kAnswerGone:
      return Never(StatusCode::UNKNOWN, "ANSWER_GONE",
                   "This operation has ended, and its answer is no longer kept; look up what it "
                   "did, and do not send it with another key.");
    case StopReason::kAbandoned:
      return Never(StatusCode::UNKNOWN, "ABANDONED",
                   "This operation was closed without a known outcome; it will not be attempted "
                   "again under this key.");
    case StopReason::kTooOld:
      return Never(StatusCode::UNKNOWN, "TOO_OLD",
                   "Nothing is known of an operation this old; look up whether it happened before "
                   "sending it anew.");
    case StopReason::kNothingHappened:
    case StopReason::kCancelled:
      return Later(StatusCode::UNAVAILABLE, Name(run.stop), run,
                   "The operation had no effect; send the same call with the same key again after "
                   "the delay in RetryInfo.");
    case StopReason::kUnavailable:
      return Unavailable(run);
    case StopReason::kRefused:
      return Refused(run);
    case StopReason::kInvalid:
    case StopReason::kNone:
      break;
  }
  return Internal();
}

}  // namespace idempotency
