// From an answer to what to do next, as command lines to copy. Pure: this is the API's next_step
// in words, for a person who wants to go on.
#ifndef IDEMPOTENCY_CLIENT_CTL_NEXT_STEP_H_
#define IDEMPOTENCY_CLIENT_CTL_NEXT_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/call_error.h"
#include "client/ctl/command_line.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::ctl {

struct Suggestion {
  // When this is the one to take.
  std::string when;
  std::string command;

  bool operator==(const Suggestion&) const = default;
};

struct NextSteps {
  // One or two sentences; empty: there is nothing to say.
  std::string summary;
  std::vector<Suggestion> suggestions;

  bool operator==(const NextSteps&) const = default;
};

// What the commands are about.
struct Subject {
  // Named in every command unless it is the default one.
  Target server;
  v1::OperationId id;
  // ALGORITHM:HEX; empty: none was given or seen.
  std::string fingerprint;
  // The attempt that the caller holds, or held; 0: none.
  uint64_t fencing_token = 0;
  // Who would decide; empty: a placeholder is shown.
  std::string actor;
  // What was seen, so that only that is settled; empty: whatever is there.
  std::string etag;
};

// After Reserve. `body_written`: the stored answer went to --body-out.
NextSteps AfterReserve(const v1::ReserveResponse& response, const Subject& subject,
                       bool dispatch_later, bool body_written);

// After a read or a finishing verb, where `step` is what a Reserve of the same request would be
// told now.
NextSteps AfterLook(v1::NextStep step, const v1::Operation& operation,
                    std::optional<absl::Duration> retry_after, const Subject& subject);

// After Renew, which leaves the caller the owner.
NextSteps AfterRenew(const Subject& subject);

// What was tried, for what to do when it failed.
struct FailedCall {
  // "complete"
  std::string verb;
  // Whether it can change anything: a read that got no answer leaves no doubt behind.
  bool changes = false;
  // The command line that sends the same call again.
  std::string repeat;
  // Whether that needs the same bytes on standard input once more.
  bool reads_input = false;
  // reserve only.
  std::string attempt_id;
  // Without an id: the verb is not about one operation.
  Subject subject;
};

NextSteps AfterError(const CallError& error, const FailedCall& call);

// As it is shown: the summary, then each suggestion with its reason as a comment above it.
std::string ToText(const NextSteps& steps);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_NEXT_STEP_H_
