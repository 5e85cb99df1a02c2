#include "client/ctl/next_step.h"

#include <utility>

#include "client/ctl/duration_text.h"
#include "client/ctl/printable.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

// Long enough to be useful, and within every namespace's default maximum.
constexpr char kSuggestedWait[] = "30s";

CommandLine About(const Subject& subject, const std::string& verb) {
  return CommandLine(subject.server, verb).Id(subject.id);
}

CommandLine WithToken(const Subject& subject, const std::string& verb) {
  return About(subject, verb).Flag("fencing-token", std::to_string(subject.fencing_token));
}

Suggestion Inspect(const Subject& subject, std::string when = "look at what is recorded") {
  return {std::move(when), About(subject, "inspect").ToString()};
}

CommandLine ReserveAgain(const Subject& subject) {
  return About(subject, "reserve").OptionalFlag("fingerprint", subject.fingerprint);
}

// --- How an owner reports ------------------------------------------------------------------

Suggestion ReportComplete(const Subject& subject) {
  return {"it happened (or it failed for good: --verdict=failed); ANSWER is a file with the reply",
          WithToken(subject, "complete")
              .Flag("verdict", "succeeded")
              .Flag("body-file", "ANSWER")
              .ToString()};
}

Suggestion ReportRelease(const Subject& subject) {
  return {"you are certain that nothing happened", WithToken(subject, "release").ToString()};
}

Suggestion ReportUnknown(const Subject& subject) {
  return {"you cannot tell whether it happened",
          WithToken(subject, "mark-unresolved").Flag("cause", "timeout").ToString()};
}

std::vector<Suggestion> Reports(const Subject& subject) {
  return {ReportComplete(subject), ReportRelease(subject), ReportUnknown(subject)};
}

// --- How an operator settles -----------------------------------------------------------------

CommandLine Decision(const Subject& subject, const std::string& kind) {
  CommandLine command = About(subject, "resolve " + kind);
  if (kind == "completed") command.Flag("verdict", "succeeded");
  return command.Flag("actor", subject.actor.empty() ? "YOUR_NAME" : subject.actor)
      .Flag("reason", "WHAT YOU FOUND")
      .OptionalFlag("etag", subject.etag);
}

std::vector<Suggestion> Decisions(const Subject& subject) {
  return {{"it happened: duplicates are then given this answer (--body-file=FILE adds the reply)",
           Decision(subject, "completed").ToString()},
          {"it did not happen: the next reserve then acquires",
           Decision(subject, "not-executed").ToString()},
          {"nobody will ever know: duplicates are then told to stop",
           Decision(subject, "abandoned").ToString()}};
}

void Append(std::vector<Suggestion> more, NextSteps* steps) {
  for (Suggestion& suggestion : more) steps->suggestions.push_back(std::move(suggestion));
}

std::string In(std::optional<absl::Duration> retry_after) {
  return retry_after && *retry_after > absl::ZeroDuration() ? " in " + SpanText(*retry_after) : "";
}

std::string ProviderHint(const v1::Operation& operation) {
  const std::string& id = operation.provider_request_id();
  return id.empty() ? "" : " The provider's id of it is " + ShellQuote(id) + ".";
}

// --- One function a next step ------------------------------------------------------------------

NextSteps Proceed(const Subject& subject, bool dispatch_later) {
  NextSteps steps;
  steps.summary =
      "Start the effect before the lease ends, then report how it ended with one of the commands "
      "below.";
  if (dispatch_later) {
    steps.summary =
        "Say that the effect starts, and start it only when that is acknowledged; then report how "
        "it ended.";
    steps.suggestions.push_back({"right before the effect starts",
                                 WithToken(subject, "renew").Switch("dispatched").ToString()});
  }
  Append(Reports(subject), &steps);
  return steps;
}

NextSteps ProceedUnlessStarted(const Subject& subject) {
  NextSteps steps;
  steps.summary =
      "This attempt acquired it before: its answer was lost, or the attempt id was used twice. "
      "Start the effect only if you know that it was not started yet, and report how it ended; "
      "else say that you cannot tell.";
  steps.suggestions = {ReportUnknown(subject), ReportComplete(subject), ReportRelease(subject)};
  return steps;
}

NextSteps WaitAndReserve(const v1::Operation& operation, std::optional<absl::Duration> retry_after,
                         const Subject& subject) {
  NextSteps steps;
  if (operation.state() == v1::OPERATION_STATE_UNRESOLVED) {
    steps.summary = "A new attempt with the same key is granted later: reserve again" +
                    In(retry_after) + ", with the same key and a new attempt id.";
    steps.suggestions = {{"when the time has come", ReserveAgain(subject).ToString()},
                         Inspect(subject)};
    return steps;
  }
  steps.summary = "Another attempt is at it. Start nothing; reserve again" + In(retry_after) +
                  ", with the same key, or let the server wait for its end.";
  steps.suggestions = {
      {"wait for it, and acquire or be given the answer",
       ReserveAgain(subject).Flag("wait", kSuggestedWait).ToString()},
      {"only watch", About(subject, "get").Flag("wait", kSuggestedWait).ToString()}};
  return steps;
}

NextSteps UseResponse(const Subject& subject, bool body_written) {
  NextSteps steps;
  steps.summary = "It has ended: use the stored answer, and start nothing.";
  if (body_written) return steps;
  steps.suggestions = {{"write the stored body to the file ANSWER",
                        About(subject, "get")
                            .OptionalFlag("fingerprint", subject.fingerprint)
                            .Flag("body-out", "ANSWER")
                            .ToString()}};
  return steps;
}

NextSteps LookUpAnswer(const v1::Operation& operation, const Subject& subject) {
  NextSteps steps;
  steps.summary =
      "It has ended and must not be repeated, but its answer is not kept here: read it from the "
      "provider or from your own records." +
      ProviderHint(operation);
  steps.suggestions = {Inspect(subject)};
  if (operation.state() == v1::OPERATION_STATE_EXPIRED) {
    steps.suggestions.push_back({"only if you have found out that it is wanted once more",
                                 ReserveAgain(subject).Switch("start-over").ToString()});
  }
  return steps;
}

NextSteps Reconcile(const v1::Operation& operation, const Subject& subject) {
  NextSteps steps;
  if (operation.state() == v1::OPERATION_STATE_UNSPECIFIED) {
    steps.summary =
        "Nothing is recorded of this key, and the operation is older than what is remembered: it "
        "may have happened. Find out from the provider or your own records; do not make a new key.";
    steps.suggestions = {{"only if you have found out that it did not happen",
                          ReserveAgain(subject).Switch("start-over").ToString()}};
    return steps;
  }
  steps.summary =
      "Nobody knows whether it happened. Find out from the provider or your own records, then "
      "settle it; do not make a new key." +
      ProviderHint(operation);
  steps.suggestions = {Inspect(subject)};
  if (subject.fencing_token != 0) {
    steps.summary += " The lease was your own: if you know how it ended, report that.";
    steps.suggestions.push_back(ReportComplete(subject));
    return steps;
  }
  Append(Decisions(subject), &steps);
  return steps;
}

NextSteps SettleOther(const Subject& subject) {
  return {
      "Another request under this key is still open, or its digest was made another way. Settle "
      "that one first, and start nothing.",
      {Inspect(subject),
       {"wait for its end", About(subject, "get").Flag("wait", kSuggestedWait).ToString()}}};
}

NextSteps UseOwnKey(const Subject& subject) {
  Subject other = subject;
  other.id.set_key("NEW_KEY");
  return {
      "Another request ended under this key. If yours is a new operation it needs a key of its "
      "own; if it is the same one, find out why the request differs.",
      {Inspect(subject), {"a new operation", ReserveAgain(other).ToString()}}};
}

NextSteps Stop(const Subject& subject) {
  return {"Stop: it was closed for good without a known outcome. Start nothing.",
          {Inspect(subject, "look at who closed it, and why")}};
}

NextSteps NotUnderstood(const Subject& subject) {
  return {"Stop: the server's answer is newer than this tool. Start nothing, and update the tool.",
          {Inspect(subject)}};
}

// The steps that mean the same to one who reserves and to one who looks.
NextSteps Common(v1::NextStep step, const v1::Operation& operation,
                 std::optional<absl::Duration> retry_after, const Subject& subject,
                 bool body_written) {
  switch (static_cast<int>(step)) {
    case v1::NEXT_STEP_RESERVE_AGAIN:
      return WaitAndReserve(operation, retry_after, subject);
    case v1::NEXT_STEP_USE_RESPONSE:
      return UseResponse(subject, body_written);
    case v1::NEXT_STEP_LOOK_UP_ANSWER:
      return LookUpAnswer(operation, subject);
    case v1::NEXT_STEP_RECONCILE_FIRST:
      return Reconcile(operation, subject);
    case v1::NEXT_STEP_SETTLE_OTHER_FIRST:
      return SettleOther(subject);
    case v1::NEXT_STEP_USE_OWN_KEY:
      return UseOwnKey(subject);
    case v1::NEXT_STEP_STOP:
      return Stop(subject);
  }
  return NotUnderstood(subject);
}

std::optional<absl::Duration> RetryAfter(const v1::ReserveResponse& response) {
  if (!response.has_retry_after()) return std::nullopt;
  return FromProto(response.retry_after());
}

}  // namespace

NextSteps AfterReserve(const v1::ReserveResponse& response, const Subject& subject,
                       bool dispatch_later, bool body_written) {
  Subject mine = subject;
  mine.fencing_token = response.lease().fencing_token();
  switch (static_cast<int>(response.next_step())) {
    case v1::NEXT_STEP_PROCEED:
      return Proceed(mine, dispatch_later);
    case v1::NEXT_STEP_PROCEED_UNLESS_STARTED:
      return ProceedUnlessStarted(mine);
  }
  return Common(response.next_step(), response.operation(), RetryAfter(response), mine,
                body_written);
}

NextSteps AfterLook(v1::NextStep step, const v1::Operation& operation,
                    std::optional<absl::Duration> retry_after, const Subject& subject) {
  switch (static_cast<int>(step)) {
    case v1::NEXT_STEP_UNSPECIFIED:
      return {};
    case v1::NEXT_STEP_PROCEED:
      return {"A reserve of this request would acquire it now.",
              {{"acquire it", ReserveAgain(subject).ToString()}}};
  }
  return Common(step, operation, retry_after, subject, /*body_written=*/false);
}

NextSteps AfterRenew(const Subject& subject) {
  return {"Report how it ended before the lease ends.", Reports(subject)};
}

// --- Errors ------------------------------------------------------------------------------------

namespace {

Suggestion Repeat(const FailedCall& call) {
  const std::string when = "the same call again";
  return {call.reads_input ? when + ", with the same standard input" : when, call.repeat};
}

NextSteps Again(const CallError& error, const FailedCall& call, const std::string& why) {
  return {why + " Repeat the same command" + In(error.retry_after) + ".", {Repeat(call)}};
}

// Nothing is known of the outcome, or nothing was sent.
NextSteps AfterSilence(const CallError& error, const FailedCall& call) {
  NextSteps steps;
  if (error.delivery == Delivery::kNotSent) {
    steps.summary = "Nothing was sent, so nothing was changed.";
    if (!error.interrupted && call.verb != "health") {
      steps.suggestions.push_back({"see whether a server answers there",
                                   CommandLine(call.subject.server, "health").ToString()});
    }
  } else if (!call.changes) {
    steps.summary = "Nothing was changed; ask again.";
  } else {
    steps.summary =
        "The outcome is unknown: the call may have been applied. Repeating it is safe: the same "
        "ids get the same answer.";
    if (!call.attempt_id.empty()) {
      steps.summary += " The attempt id is " + ShellQuote(call.attempt_id) + ".";
    }
  }
  steps.suggestions.push_back(Repeat(call));
  if (call.changes && error.delivery == Delivery::kUnknown && !call.subject.id.key().empty()) {
    steps.suggestions.push_back({"only look", About(call.subject, "get").ToString()});
  }
  return steps;
}

NextSteps Lapsed(const FailedCall& call) {
  return {
      "The lease has ended: start nothing irreversible any more. How it ended may still be "
      "reported.",
      Reports(call.subject)};
}

NextSteps NotFound(const FailedCall& call) {
  const v1::OperationId& id = call.subject.id;
  return {"Check namespace, scope and key: they are compared byte for byte.",
          {{"list what there is", CommandLine(call.subject.server, "list")
                                      .Operand(id.namespace_())
                                      .OptionalFlag("scope", id.scope())
                                      .ToString()}}};
}

NextSteps Unreadable(const FailedCall& call) {
  const Subject& subject = call.subject;
  return {
      "What is stored for this key is damaged, so it may have happened. Find out from the "
      "provider; erasing the record is the only way to use the key again.",
      {{"only when you know what happened",
        About(subject, "delete")
            .Switch("force")
            .Flag("actor", subject.actor.empty() ? "YOUR_NAME" : subject.actor)
            .Flag("reason", "WHAT YOU FOUND")
            .ToString()}}};
}

NextSteps Help(const FailedCall& call) {
  return {"Correct the command line.",
          {{"what the command takes", "idempotencyctl " + call.verb + " --help"}}};
}

NextSteps Finished(const FailedCall& call) {
  if (call.verb == "reserve") {
    return {
        "This attempt has ended. A new attempt needs a new attempt id, which reserve makes "
        "where none is given.",
        {{"a new attempt", ReserveAgain(call.subject).ToString()}}};
  }
  return {"This attempt has ended.", {Inspect(call.subject)}};
}

NextSteps AfterRefusal(const CallError& error, const FailedCall& call) {
  const Subject& subject = call.subject;
  switch (static_cast<int>(ReasonOf(error))) {
    case v1::ERROR_REASON_INVALID_FIELD:
      return Help(call);
    case v1::ERROR_REASON_NAMESPACE_NOT_FOUND:
      return {"Use a namespace that the server knows.",
              {{"list them", CommandLine(subject.server, "namespaces").ToString()}}};
    case v1::ERROR_REASON_OPERATION_NOT_FOUND:
      return NotFound(call);
    case v1::ERROR_REASON_ACCESS_DENIED:
      if (StatusCodeName(error.code) == "UNAUTHENTICATED") {
        return {"Say who you are: with --token-file, or with --cert and --key.", {}};
      }
      return {"Ask whoever runs the server for access to this namespace and scope.", {}};
    case v1::ERROR_REASON_STALE_FENCING_TOKEN:
      return {
          "Someone else has acquired or settled it since: stop, and compare what is recorded "
          "with what you know.",
          {Inspect(subject)}};
    case v1::ERROR_REASON_UNKNOWN_FENCING_TOKEN:
      return {"This token was never given for this key: check the key and the token.",
              {Inspect(subject)}};
    case v1::ERROR_REASON_LEASE_LAPSED:
      return Lapsed(call);
    case v1::ERROR_REASON_ALREADY_COMPLETE:
      return {"The first answer stands. Find out why there are two.", {Inspect(subject)}};
    case v1::ERROR_REASON_ATTEMPT_FINISHED:
      return Finished(call);
    case v1::ERROR_REASON_OUTCOME_UNKNOWN:
      return {"It was marked unresolved: only a decision frees it.", Decisions(subject)};
    case v1::ERROR_REASON_LEASE_LIVE: {
      NextSteps steps = Again(error, call, "Its owner is still at it: wait for its end.");
      steps.suggestions.insert(
          steps.suggestions.begin(),
          {"wait for it", About(subject, "get").Flag("wait", kSuggestedWait).ToString()});
      return steps;
    }
    case v1::ERROR_REASON_NOT_SETTLED:
      return Again(error, call, "The outbound call may still be in flight: let it settle.");
    case v1::ERROR_REASON_WRONG_STATE:
      return {"Its state does not allow this.", {Inspect(subject)}};
    case v1::ERROR_REASON_ETAG_MISMATCH:
      return {"It has changed since you looked. Look again, and decide on what is there now.",
              {Inspect(subject)}};
    case v1::ERROR_REASON_QUOTA_EXCEEDED:
      return Again(error, call, "The namespace holds as many operations as it may.");
    case v1::ERROR_REASON_OVERLOADED:
      return Again(error, call, "The server has more to do than it can.");
    case v1::ERROR_REASON_STORE_FULL:
      return Again(error, call, "The server has no space for new keys until somebody makes some.");
    case v1::ERROR_REASON_RECORD_UNREADABLE:
      return Unreadable(call);
  }
  return {};
}

}  // namespace

NextSteps AfterError(const CallError& error, const FailedCall& call) {
  return error.delivery == Delivery::kRefused ? AfterRefusal(error, call)
                                              : AfterSilence(error, call);
}

std::string ToText(const NextSteps& steps) {
  if (steps.summary.empty() && steps.suggestions.empty()) return "";
  std::string text = "Next: " + steps.summary + "\n";
  for (const Suggestion& suggestion : steps.suggestions) {
    text += "  # " + suggestion.when + "\n  " + suggestion.command + "\n";
  }
  return text;
}

}  // namespace idempotency::ctl
