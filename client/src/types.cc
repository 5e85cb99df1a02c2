#include "idempotency/types.h"

namespace idempotency {
namespace {

constexpr std::string_view kUnknownName = "UNKNOWN";

}  // namespace

std::string_view Name(OperationState state) {
  switch (state) {
    case OperationState::kUnspecified:
      return "UNSPECIFIED";
    case OperationState::kPending:
      return "PENDING";
    case OperationState::kComplete:
      return "COMPLETE";
    case OperationState::kUnresolved:
      return "UNRESOLVED";
    case OperationState::kExpired:
      return "EXPIRED";
    case OperationState::kFreed:
      return "FREED";
  }
  return kUnknownName;
}

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUnspecified:
      return "UNSPECIFIED";
    case Verdict::kSucceeded:
      return "SUCCEEDED";
    case Verdict::kFailed:
      return "FAILED";
    case Verdict::kAbandoned:
      return "ABANDONED";
  }
  return kUnknownName;
}

std::string_view Name(UnresolvedCause cause) {
  switch (cause) {
    case UnresolvedCause::kUnspecified:
      return "UNSPECIFIED";
    case UnresolvedCause::kTimeout:
      return "TIMEOUT";
    case UnresolvedCause::kConnectionLost:
      return "CONNECTION_LOST";
    case UnresolvedCause::kServerError:
      return "SERVER_ERROR";
    case UnresolvedCause::kOwnerCancelled:
      return "OWNER_CANCELLED";
    case UnresolvedCause::kOther:
      return "OTHER";
    case UnresolvedCause::kLeaseLapsed:
      return "LEASE_LAPSED";
  }
  return kUnknownName;
}

std::string_view Name(ReserveOutcome outcome) {
  switch (outcome) {
    case ReserveOutcome::kUnspecified:
      return "UNSPECIFIED";
    case ReserveOutcome::kAcquired:
      return "ACQUIRED";
    case ReserveOutcome::kAlreadyHeld:
      return "ALREADY_HELD";
    case ReserveOutcome::kInProgress:
      return "IN_PROGRESS";
    case ReserveOutcome::kCompleted:
      return "COMPLETED";
    case ReserveOutcome::kUnresolved:
      return "UNRESOLVED";
    case ReserveOutcome::kFingerprintMismatch:
      return "FINGERPRINT_MISMATCH";
    case ReserveOutcome::kExpired:
      return "EXPIRED";
    case ReserveOutcome::kTooOld:
      return "TOO_OLD";
  }
  return kUnknownName;
}

std::string_view Name(NextStep step) {
  switch (step) {
    case NextStep::kUnspecified:
      return "UNSPECIFIED";
    case NextStep::kProceed:
      return "PROCEED";
    case NextStep::kProceedUnlessStarted:
      return "PROCEED_UNLESS_STARTED";
    case NextStep::kReserveAgain:
      return "RESERVE_AGAIN";
    case NextStep::kUseResponse:
      return "USE_RESPONSE";
    case NextStep::kLookUpAnswer:
      return "LOOK_UP_ANSWER";
    case NextStep::kReconcileFirst:
      return "RECONCILE_FIRST";
    case NextStep::kSettleOtherFirst:
      return "SETTLE_OTHER_FIRST";
    case NextStep::kUseOwnKey:
      return "USE_OWN_KEY";
    case NextStep::kStop:
      return "STOP";
  }
  return kUnknownName;
}

std::string_view Name(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kUnspecified:
      return "UNSPECIFIED";
    case ErrorReason::kInvalidField:
      return "INVALID_FIELD";
    case ErrorReason::kNamespaceNotFound:
      return "NAMESPACE_NOT_FOUND";
    case ErrorReason::kOperationNotFound:
      return "OPERATION_NOT_FOUND";
    case ErrorReason::kAccessDenied:
      return "ACCESS_DENIED";
    case ErrorReason::kStaleFencingToken:
      return "STALE_FENCING_TOKEN";
    case ErrorReason::kUnknownFencingToken:
      return "UNKNOWN_FENCING_TOKEN";
    case ErrorReason::kLeaseLapsed:
      return "LEASE_LAPSED";
    case ErrorReason::kAlreadyComplete:
      return "ALREADY_COMPLETE";
    case ErrorReason::kAttemptFinished:
      return "ATTEMPT_FINISHED";
    case ErrorReason::kOutcomeUnknown:
      return "OUTCOME_UNKNOWN";
    case ErrorReason::kLeaseLive:
      return "LEASE_LIVE";
    case ErrorReason::kNotSettled:
      return "NOT_SETTLED";
    case ErrorReason::kWrongState:
      return "WRONG_STATE";
    case ErrorReason::kEtagMismatch:
      return "ETAG_MISMATCH";
    case ErrorReason::kQuotaExceeded:
      return "QUOTA_EXCEEDED";
    case ErrorReason::kOverloaded:
      return "OVERLOADED";
    case ErrorReason::kStoreFull:
      return "STORE_FULL";
    case ErrorReason::kStoreUnavailable:
      return "STORE_UNAVAILABLE";
    case ErrorReason::kRecordUnreadable:
      return "RECORD_UNREADABLE";
  }
  return kUnknownName;
}

}  // namespace idempotency
