#include "keystore/core/names.h"

namespace idempotency::core {

std::string_view Name(State state) {
  switch (state) {
    case State::kPending:
      return "PENDING";
    case State::kComplete:
      return "COMPLETE";
    case State::kUnresolved:
      return "UNRESOLVED";
    case State::kExpired:
      return "EXPIRED";
    case State::kFreed:
      return "FREED";
  }
  return "UNKNOWN";
}

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNone:
      return "NONE";
    case Verdict::kSucceeded:
      return "SUCCEEDED";
    case Verdict::kFailed:
      return "FAILED";
    case Verdict::kAbandoned:
      return "ABANDONED";
  }
  return "UNKNOWN";
}

std::string_view Name(UnresolvedCause cause) {
  switch (cause) {
    case UnresolvedCause::kNone:
      return "NONE";
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
  return "UNKNOWN";
}

std::string_view Name(EndVerb verb) {
  switch (verb) {
    case EndVerb::kLapsed:
      return "LAPSED";
    case EndVerb::kCompleted:
      return "COMPLETED";
    case EndVerb::kReleased:
      return "RELEASED";
    case EndVerb::kReleasedUnknown:
      return "RELEASED_UNKNOWN";
    case EndVerb::kMarkedUnresolved:
      return "MARKED_UNRESOLVED";
  }
  return "UNKNOWN";
}

std::string_view Name(Resolution resolution) {
  switch (resolution) {
    case Resolution::kNone:
      return "NONE";
    case Resolution::kCompleted:
      return "COMPLETED";
    case Resolution::kNotExecuted:
      return "NOT_EXECUTED";
    case Resolution::kAbandoned:
      return "ABANDONED";
    case Resolution::kDeleted:
      return "DELETED";
  }
  return "UNKNOWN";
}

std::string_view Name(EventKind kind) {
  switch (kind) {
    case EventKind::kAcquired:
      return "ACQUIRED";
    case EventKind::kDispatched:
      return "DISPATCHED";
    case EventKind::kLeaseLapsed:
      return "LEASE_LAPSED";
    case EventKind::kMarkedUnresolved:
      return "MARKED_UNRESOLVED";
    case EventKind::kCompleted:
      return "COMPLETED";
    case EventKind::kReleased:
      return "RELEASED";
    case EventKind::kResolved:
      return "RESOLVED";
    case EventKind::kLateCompletion:
      return "LATE_COMPLETION";
    case EventKind::kStartedOver:
      return "STARTED_OVER";
  }
  return "UNKNOWN";
}

std::string_view Name(ReserveOutcome outcome) {
  switch (outcome) {
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
  return "UNKNOWN";
}

std::string_view Name(NextStep step) {
  switch (step) {
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
  return "UNKNOWN";
}

std::string_view Name(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "NONE";
    case Reason::kInvalidField:
      return "INVALID_FIELD";
    case Reason::kNamespaceNotFound:
      return "NAMESPACE_NOT_FOUND";
    case Reason::kOperationNotFound:
      return "OPERATION_NOT_FOUND";
    case Reason::kAccessDenied:
      return "ACCESS_DENIED";
    case Reason::kStaleFencingToken:
      return "STALE_FENCING_TOKEN";
    case Reason::kUnknownFencingToken:
      return "UNKNOWN_FENCING_TOKEN";
    case Reason::kLeaseLapsed:
      return "LEASE_LAPSED";
    case Reason::kAlreadyComplete:
      return "ALREADY_COMPLETE";
    case Reason::kAttemptFinished:
      return "ATTEMPT_FINISHED";
    case Reason::kOutcomeUnknown:
      return "OUTCOME_UNKNOWN";
    case Reason::kLeaseLive:
      return "LEASE_LIVE";
    case Reason::kNotSettled:
      return "NOT_SETTLED";
    case Reason::kWrongState:
      return "WRONG_STATE";
    case Reason::kEtagMismatch:
      return "ETAG_MISMATCH";
    case Reason::kQuotaExceeded:
      return "QUOTA_EXCEEDED";
    case Reason::kOverloaded:
      return "OVERLOADED";
    case Reason::kStoreFull:
      return "STORE_FULL";
    case Reason::kStoreUnavailable:
      return "STORE_UNAVAILABLE";
    case Reason::kRecordUnreadable:
      return "RECORD_UNREADABLE";
  }
  return "UNKNOWN";
}

std::string_view Name(UnknownOutcome policy) {
  switch (policy) {
    case UnknownOutcome::kReconcileFirst:
      return "RECONCILE_FIRST";
    case UnknownOutcome::kRetrySameKey:
      return "RETRY_SAME_KEY";
    case UnknownOutcome::kRerun:
      return "RERUN";
  }
  return "UNKNOWN";
}

}  // namespace idempotency::core
