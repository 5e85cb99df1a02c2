#include "client/ctl/exit_code.h"

namespace idempotency::ctl {

// Both enums are open: a newer server may send a value that this build does not know, so these
// switches end in a fallback, and leave the generated sentinels to it.
ExitCode ExitCodeOf(v1::ReserveOutcome outcome) {
  switch (static_cast<int>(outcome)) {
    case v1::RESERVE_OUTCOME_ACQUIRED:
      return ExitCode::kOk;
    case v1::RESERVE_OUTCOME_ALREADY_HELD:
      return ExitCode::kAlreadyHeld;
    case v1::RESERVE_OUTCOME_IN_PROGRESS:
      return ExitCode::kInProgress;
    case v1::RESERVE_OUTCOME_COMPLETED:
      return ExitCode::kCompleted;
    case v1::RESERVE_OUTCOME_UNRESOLVED:
      return ExitCode::kUnresolved;
    case v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH:
      return ExitCode::kFingerprintMismatch;
    case v1::RESERVE_OUTCOME_EXPIRED:
      return ExitCode::kExpired;
    case v1::RESERVE_OUTCOME_TOO_OLD:
      return ExitCode::kTooOld;
  }
  return ExitCode::kNotUnderstood;
}

ExitCode ExitCodeOf(v1::OperationState state) {
  switch (static_cast<int>(state)) {
    case v1::OPERATION_STATE_PENDING:
      return ExitCode::kInProgress;
    case v1::OPERATION_STATE_COMPLETE:
      return ExitCode::kCompleted;
    case v1::OPERATION_STATE_UNRESOLVED:
      return ExitCode::kUnresolved;
    case v1::OPERATION_STATE_EXPIRED:
      return ExitCode::kExpired;
    case v1::OPERATION_STATE_FREED:
      return ExitCode::kFreed;
  }
  return ExitCode::kNotUnderstood;
}

ExitCode ExitCodeOf(const CallError& error) {
  if (error.interrupted) return ExitCode::kInterrupted;
  switch (error.delivery) {
    case Delivery::kRefused:
      return ExitCode::kRefused;
    case Delivery::kNotSent:
    case Delivery::kUnknown:
      return ExitCode::kNoAnswer;
  }
  return ExitCode::kNoAnswer;
}

std::string ExitCodeHelp() {
  return R"(Exit codes:
  0    done; reserve: ACQUIRED, start the effect
  2    the command line or a file that it names is wrong; nothing was sent
  3    the server refused, and said why; nothing was changed
  4    not reached, or no answer: it may have been applied, repeating it is safe
  5    the answer came, but could not be written (--body-out, standard output)
  6    health: the server answers, and does not serve
  7    engine check: something that callers are promised does not hold
  10   reserve: ALREADY_HELD by this attempt; go on only if nothing was started
  11   reserve: IN_PROGRESS, another attempt is at it
  12   reserve: COMPLETED, use the stored answer
  13   reserve: UNRESOLVED; release: an earlier attempt's outcome is still unknown
  14   reserve: FINGERPRINT_MISMATCH, the key belongs to another request
  15   reserve: EXPIRED, it completed, and the answer is no longer kept
  16   reserve: TOO_OLD, older than what is remembered
  17   get --exit-code: FREED, the next reserve acquires it
  20   an answer that this version does not know: stop
  130  Ctrl-C (143: SIGTERM); what was in flight may have been applied, repeating is safe
get --exit-code uses 11, 12, 13, 15 and 17 for the state that it finds.)";
}

}  // namespace idempotency::ctl
