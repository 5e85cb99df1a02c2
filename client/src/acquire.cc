#include "client/src/acquire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/src/retry.h"

namespace idempotency::internal {
namespace {

using std::chrono::nanoseconds;

// Attempts of one Run that may be lost to their own lateness before it gives up.
constexpr uint32_t kMaxLostAttempts = 3;
// Longer waits count as this.
constexpr Duration kLongestWait = std::chrono::hours(24);

Acquisition Ended(RunResult result) { return Acquisition{.ended = std::move(result)}; }

RunResult CancelledBeforeReserve() {
  return Stopped(StopReason::kCancelled, NextStep::kReserveAgain,
                 "cancelled by the caller before the operation was held");
}

// A next step that this library does not know is a reason to do nothing.
NextStep Careful(NextStep step) {
  const bool known = step != NextStep::kUnspecified && Name(step) != "UNKNOWN";
  return known ? step : NextStep::kStop;
}

bool IsGrant(const ReserveResponse& response) {
  return response.lease.has_value() && (response.outcome == ReserveOutcome::kAcquired ||
                                        response.outcome == ReserveOutcome::kAlreadyHeld);
}

StopReason ReasonOf(const ReserveResponse& response) {
  const bool stop = response.next_step == NextStep::kStop;
  switch (response.outcome) {
    case ReserveOutcome::kInProgress:
      return StopReason::kInProgress;
    case ReserveOutcome::kCompleted:
    case ReserveOutcome::kExpired:
      return stop ? StopReason::kAbandoned : StopReason::kAnswerGone;
    case ReserveOutcome::kUnresolved:
      return StopReason::kUnresolved;
    case ReserveOutcome::kFingerprintMismatch:
      return StopReason::kMismatch;
    case ReserveOutcome::kTooOld:
      return StopReason::kTooOld;
    case ReserveOutcome::kUnspecified:
    case ReserveOutcome::kAcquired:
    case ReserveOutcome::kAlreadyHeld:
      break;
  }
  return StopReason::kRefused;
}

// How a Run ends that is not let proceed.
RunResult StoppedBy(const ReserveResponse& response) {
  RunResult result = Stopped(ReasonOf(response), Careful(response.next_step), response.detail);
  result.operation = response.operation;
  result.retry_after = response.retry_after;
  if (response.operation.has_value()) result.verdict = response.operation->verdict;
  return result;
}

// What the service says is not understood: nothing is done.
RunResult NotUnderstood(const ReserveResponse& response) {
  RunResult result = StoppedBy(response);
  result.stop = StopReason::kRefused;
  result.next_step = NextStep::kStop;
  result.detail = absl::StrCat(
      "the service answered ", std::string(Name(response.outcome)), " and ",
      std::string(Name(response.next_step)),
      ", which this client does not understand, so nothing was started; update the client. ",
      response.detail);
  return result;
}

RunResult Replayed(const Operation& operation, std::optional<CachedResponse> response,
                   Verdict verdict) {
  RunResult result;
  result.response = std::move(response).value_or(CachedResponse{});
  result.verdict = verdict;
  result.replayed = true;
  result.next_step = NextStep::kUseResponse;
  result.operation = operation;
  return result;
}

// Whether the service cannot be reached or cannot work, in contrast to "it said no".
bool IsOutage(const absl::Status& failure) {
  const std::optional<Refusal> refusal = Refused(failure);
  if (!refusal.has_value()) return IsTransient(failure);
  return refusal->reason == ErrorReason::kOverloaded ||
         refusal->reason == ErrorReason::kStoreUnavailable;
}

}  // namespace

Acquirer::Acquirer(const RunContext& context)
    : context_(context),
      wait_end_(context.environment->MonotonicNow() +
                nanoseconds(std::min(context.request.wait, kLongestWait))),
      start_over_(context.request.start_over) {}

Duration Acquirer::WaitLeft() const {
  const nanoseconds left = wait_end_ - context_.environment->MonotonicNow();
  return std::max(Duration(0), std::chrono::floor<Duration>(left));
}

Acquisition Acquirer::Acquire() {
  for (;;) {
    if (context_.IsCancelled()) return Ended(CancelledBeforeReserve());
    const absl::StatusOr<ReserveResponse> response = Reserve();
    Step step = response.ok() ? OnReserved(*response) : OnFailed(response.status());
    if (step.has_value()) return *std::move(step);
  }
}

bool Acquirer::Release(uint64_t fencing_token, std::string detail) const {
  const ReleaseRequest release{
      .id = context_.request.id, .fencing_token = fencing_token, .detail = std::move(detail)};
  return context_.Settle(&Connection::Release, release).ok();
}

// --- Asking --------------------------------------------------------------------------------------

ReserveRequest Acquirer::MakeReserve() const {
  const RunRequest& request = context_.request;
  ReserveRequest reserve{
      .id = request.id,
      .fingerprint = request.fingerprint,
      .attempt_id = attempt_id_,
      .lease_duration = request.lease_duration,
      .wait_duration = context_.IsCancelled() ? Duration(0) : WaitLeft(),
      .owner = {.operation_ref = request.operation_ref, .traceparent = request.traceparent},
      .labels = request.labels,
      .dispatch_later = request.dispatch_later,
      .start_over = start_over_};
  if (request.first_sent.has_value()) {
    reserve.operation_age =
        std::max(Duration(0), context_.environment->WallNow() - *request.first_sent);
  }
  return reserve;
}

// One attempt id for this call and its repetitions: a lost answer does not collide with itself.
// A call that waits is given up where the caller cancels; the next, which does not wait, finds
// out whether it had got hold of the operation.
absl::StatusOr<ReserveResponse> Acquirer::Reserve() {
  attempt_id_ = context_.environment->RandomId();
  RetryPolicy policy = context_.options.retry;
  if (policy.total < kLongestWait) policy.total += WaitLeft();
  RetryClock clock(*context_.environment, policy, context_.options.backoff);
  for (;;) {
    if (context_.IsCancelled()) clock.EndWithin(kAskAfterCancel);
    const ReserveRequest reserve = MakeReserve();
    waited_ = reserve.wait_duration > Duration(0);
    CallOptions call{.timeout = clock.Timeout() + reserve.wait_duration};
    if (waited_) call.stop = context_.CancelToken();
    sent_at_ = context_.environment->MonotonicNow();
    absl::StatusOr<ReserveResponse> response = context_.connection->Reserve(reserve, call);
    const bool may_pass = IsTransient(response.status());
    const bool given_up = call.stop.stop_requested() && may_pass;
    if (!given_up && !clock.Again(response.status(), may_pass, call.stop)) return response;
  }
}

Acquirer::Step Acquirer::OnFailed(const absl::Status& failure) {
  const std::optional<Refusal> refusal = Refused(failure);
  if (refusal.has_value() && refusal->reason == ErrorReason::kAttemptFinished &&
      ++lost_attempts_ <= kMaxLostAttempts) {
    return std::nullopt;  // it was granted, and freed again before the answer came
  }
  RunResult result;
  if (context_.IsCancelled()) {
    result = CancelledBeforeReserve();
    // A Reserve whose answer was lost may hold the key until its lease ends.
    result.record_open = !refusal.has_value();
  } else if (IsOutage(failure)) {
    if (context_.options.allow_unprotected) return Acquisition{.unprotected = true};
    result = Stopped(StopReason::kUnavailable, NextStep::kReserveAgain,
                     absl::StrCat("the idempotency service could not be reached or could not "
                                  "work, so nothing was started; try again later: ",
                                  failure.message()));
  } else {
    result = Stopped(
        StopReason::kRefused, IsTransient(failure) ? NextStep::kReserveAgain : NextStep::kStop,
        absl::StrCat("the reservation was refused, so nothing was started: ", failure.message()));
  }
  result.refusal = refusal;
  if (refusal.has_value()) result.retry_after = refusal->retry_after;
  return Ended(std::move(result));
}

Acquirer::Step Acquirer::OnReserved(const ReserveResponse& response) {
  const bool lapsed = response.outcome == ReserveOutcome::kUnresolved && response.lease.has_value();
  if (lapsed) return GiveBackLapsed(response);
  switch (response.next_step) {
    case NextStep::kProceed:
    // The id was minted here and fn has not been called: it was an answer that got lost.
    case NextStep::kProceedUnlessStarted:
      if (IsGrant(response)) return Hold(response);
      break;
    case NextStep::kUseResponse:
      if (!response.operation.has_value()) break;
      return Ended(
          Replayed(*response.operation, response.operation->response, response.operation->verdict));
    case NextStep::kReserveAgain:
      return AskAgain(response);
    case NextStep::kLookUpAnswer:
      return LookUpAnswer(response);
    case NextStep::kReconcileFirst:
      return Reconcile(response);
    case NextStep::kSettleOtherFirst:
    case NextStep::kUseOwnKey:
    case NextStep::kStop:
      return Ended(StoppedBy(response));
    case NextStep::kUnspecified:
      break;
  }
  return Ended(NotUnderstood(response));
}

Acquirer::Step Acquirer::AskAgain(const ReserveResponse& response) {
  const Duration backoff =
      context_.options.backoff.Delay(++asked_again_, context_.environment->Random());
  const Duration delay = std::max(response.retry_after.value_or(Duration(0)), backoff);
  // The service has waited for as long as it may; what is left of the caller's wait is spent here.
  if (delay >= WaitLeft()) return Ended(StoppedBy(response));
  context_.environment->SleepUnless(context_.CancelToken(), delay);
  return std::nullopt;
}

// --- Holding -------------------------------------------------------------------------------------

Acquirer::Step Acquirer::Hold(const ReserveResponse& response) {
  auto held = std::make_shared<HeldAttempt>(
      HeldAttempt::Setup{.connection = context_.connection,
                         .environment = context_.environment,
                         .timer = &context_.timer,
                         .id = context_.request.id,
                         .lease = *response.lease,
                         .sent_at = sent_at_,
                         .lease_duration = context_.request.lease_duration,
                         .call_timeout = context_.request.call_timeout,
                         .dispatch_later = context_.request.dispatch_later,
                         .renew = context_.options.renew,
                         .retry = context_.options.retry,
                         .backoff = context_.options.backoff,
                         .cancelled = context_.CancelToken()});
  // What is cancelled is given back anyhow.
  if (context_.IsCancelled() || !IsInDoubt(response, *held)) {
    return Acquisition{.held = std::move(held)};
  }
  return Confirm(std::move(held));
}

bool Acquirer::IsInDoubt(const ReserveResponse& response, const HeldAttempt& held) const {
  const nanoseconds took = context_.environment->MonotonicNow() - sent_at_;
  const bool has_run = response.outcome == ReserveOutcome::kAlreadyHeld && !context_.options.renew;
  return (waited_ && took > kPromptAnswer) || has_run || held.remaining() <= Duration(0);
}

Acquirer::Step Acquirer::Confirm(std::shared_ptr<HeldAttempt> held) {
  const absl::Status confirmed = held->Confirm();
  if (confirmed.ok()) return Acquisition{.held = std::move(held)};
  const bool open = !Release(held->fencing_token(), "the lease was not confirmed before the start");
  if (IsFinalRefusal(confirmed) && ++lost_attempts_ <= kMaxLostAttempts) {
    return std::nullopt;  // it was lost while nobody knew of it
  }
  RunResult result = Stopped(StopReason::kUnavailable, NextStep::kReserveAgain,
                             absl::StrCat("the lease could not be confirmed, so nothing was "
                                          "started; try again later: ",
                                          confirmed.message()));
  result.refusal = Refused(confirmed);
  result.record_open = open;
  return Ended(std::move(result));
}

Acquirer::Step Acquirer::GiveBackLapsed(const ReserveResponse& response) {
  const bool released =
      Release(response.lease->fencing_token, "the lease lapsed before its answer arrived");
  if (released && ++lost_attempts_ <= kMaxLostAttempts) return std::nullopt;
  return Ended(StoppedBy(response));
}

// --- Looking up ----------------------------------------------------------------------------------

Acquirer::Step Acquirer::LookUpAnswer(const ReserveResponse& response) {
  if (!context_.options.look_up || !response.operation.has_value()) {
    return Ended(StoppedBy(response));
  }
  const Operation& operation = *response.operation;
  LookUp found = context_.options.look_up(operation);
  if (found.found != LookUp::Found::kHappened) return Ended(StoppedBy(response));
  // How it ended is known here; only the answer was not.
  const Verdict verdict =
      operation.verdict == Verdict::kUnspecified ? found.verdict : operation.verdict;
  return Ended(Replayed(operation, std::move(found.response), verdict));
}

Acquirer::Step Acquirer::Reconcile(const ReserveResponse& response) {
  if (!context_.options.look_up || ++look_ups_ > kMaxLookUps) return Ended(StoppedBy(response));
  const bool recorded = response.operation.has_value();
  const Operation operation = recorded ? *response.operation : Operation{.id = context_.request.id};
  const LookUp found = context_.options.look_up(operation);
  switch (found.found) {
    case LookUp::Found::kHappened:
      if (recorded) return SettleFound(operation, found);
      return Ended(Replayed(operation, found.response, found.verdict));
    case LookUp::Found::kNotThere:
      if (recorded) return SettleNotThere(response, found);
      start_over_ = true;
      return std::nullopt;
    case LookUp::Found::kUnknown:
      break;
  }
  return Ended(StoppedBy(response));
}

Acquirer::Step Acquirer::SettleFound(const Operation& operation, const LookUp& found) {
  RunResult result = Replayed(operation, found.response, found.verdict);
  result.detail = "the look-up found that it had happened";
  result.record_open = true;
  if (context_.options.reconciler.empty()) return Ended(std::move(result));
  const ResolveRequest resolve{.id = context_.request.id,
                               .resolution = ResolveRequest::Resolution::kCompleted,
                               .verdict = found.verdict,
                               .response = found.response,
                               .actor = context_.options.reconciler,
                               .reason = found.evidence,
                               .provider_request_id = found.provider_request_id,
                               .etag = operation.etag};
  const absl::StatusOr<Operation> resolved = context_.Settle(&Connection::Resolve, resolve);
  result.record_open = !resolved.ok();
  result.refusal = Refused(resolved.status());
  if (resolved.ok()) result.operation = *resolved;
  return Ended(std::move(result));
}

Acquirer::Step Acquirer::SettleNotThere(const ReserveResponse& response, const LookUp& found) {
  if (context_.options.reconciler.empty()) return Ended(StoppedBy(response));
  const ResolveRequest resolve{.id = context_.request.id,
                               .resolution = ResolveRequest::Resolution::kNotExecuted,
                               .actor = context_.options.reconciler,
                               .reason = found.evidence,
                               .etag = response.operation->etag};
  const absl::StatusOr<Operation> resolved = context_.Settle(&Connection::Resolve, resolve);
  if (resolved.ok()) return std::nullopt;  // free: the next Reserve gets it
  const std::optional<Refusal> refusal = Refused(resolved.status());
  // Its call may still arrive, or somebody else is at it: worth another look a little later.
  const bool passes = refusal.has_value() && (refusal->reason == ErrorReason::kNotSettled ||
                                              refusal->reason == ErrorReason::kEtagMismatch ||
                                              refusal->reason == ErrorReason::kLeaseLive);
  const Duration delay =
      refusal.has_value() ? refusal->retry_after.value_or(Duration(0)) : Duration(0);
  if (passes && delay < WaitLeft()) {
    context_.environment->SleepUnless(context_.CancelToken(), delay);
    return std::nullopt;
  }
  RunResult result = StoppedBy(response);
  result.refusal = refusal;
  if (refusal.has_value()) result.retry_after = refusal->retry_after;
  return Ended(std::move(result));
}

}  // namespace idempotency::internal
