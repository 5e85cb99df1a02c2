// What the process says to a shell script when it ends. The numbers are a contract: they are in
// --help and in README.md, and a script branches on them.
#ifndef IDEMPOTENCY_CLIENT_CTL_EXIT_CODE_H_
#define IDEMPOTENCY_CLIENT_CTL_EXIT_CODE_H_

#include <string>

#include "client/ctl/call_error.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::ctl {

enum class ExitCode : int {
  // Done; for reserve: acquired.
  kOk = 0,
  // The command line, or a file that it names, is wrong. Nothing was sent.
  kUsage = 2,
  // The server refused, and said why. Nothing was changed.
  kRefused = 3,
  // Not reached, or no answer: what was sent may have been applied, and repeating it is safe.
  kNoAnswer = 4,
  // The answer came and stands, but could not be written where it was asked for.
  kNotWritten = 5,
  // health: the server answers, and does not serve.
  kNotServing = 6,
  // engine check: something that callers are promised does not hold.
  kGuaranteeFails = 7,
  kAlreadyHeld = 10,
  kInProgress = 11,
  kCompleted = 12,
  kUnresolved = 13,
  kFingerprintMismatch = 14,
  kExpired = 15,
  kTooOld = 16,
  // Only get --exit-code: the key is free, the next reserve acquires it.
  kFreed = 17,
  // An answer that this version does not know: treat it as "stop".
  kNotUnderstood = 20,
  // Ctrl-C or SIGTERM; the process then ends by that signal.
  kInterrupted = 130,
};

ExitCode ExitCodeOf(v1::ReserveOutcome outcome);
// What get --exit-code says: as reserve would, for the same state.
ExitCode ExitCodeOf(v1::OperationState state);
ExitCode ExitCodeOf(const CallError& error);

// The list that --help shows: one line a code.
std::string ExitCodeHelp();

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_EXIT_CODE_H_
