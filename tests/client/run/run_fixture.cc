#include "tests/client/run/run_fixture.h"

namespace idempotency::testing {

Lease LeaseOf(Duration remaining, uint32_t attempt) {
  return Lease{.fencing_token = kToken, .remaining = remaining, .attempt = attempt};
}

ReserveResponse Acquired(Duration remaining, uint32_t attempt) {
  return ReserveResponse{.outcome = ReserveOutcome::kAcquired,
                         .next_step = NextStep::kProceed,
                         .lease = LeaseOf(remaining, attempt),
                         .operation = Operation{.state = OperationState::kPending}};
}

ReserveResponse Found(ReserveOutcome outcome, NextStep next_step, OperationState state,
                      std::optional<Duration> retry_after) {
  return ReserveResponse{.outcome = outcome,
                         .next_step = next_step,
                         .operation = Operation{.state = state, .etag = "etag-1"},
                         .retry_after = retry_after,
                         .detail = "what the service says"};
}

ReserveResponse InProgress(Duration retry_after) {
  return Found(ReserveOutcome::kInProgress, NextStep::kReserveAgain, OperationState::kPending,
               retry_after);
}

ReserveResponse Unresolved(NextStep next_step, std::optional<Duration> retry_after) {
  return Found(ReserveOutcome::kUnresolved, next_step, OperationState::kUnresolved, retry_after);
}

ReserveResponse Completed(std::optional<CachedResponse> response, Verdict verdict) {
  ReserveResponse completed =
      Found(ReserveOutcome::kCompleted, NextStep::kUseResponse, OperationState::kComplete);
  completed.operation->verdict = verdict;
  completed.operation->response = std::move(response);
  return completed;
}

CompleteResponse Done() {
  return CompleteResponse{.operation = Operation{.state = OperationState::kComplete}};
}

MarkUnresolvedResponse Marked() {
  return MarkUnresolvedResponse{.operation = Operation{.state = OperationState::kUnresolved},
                                .next_step = NextStep::kReserveAgain,
                                .retry_after = 2s};
}

absl::Status Refuse(ErrorReason reason, std::optional<Duration> retry_after) {
  return MakeRefused(Refusal{.reason = reason, .retry_after = retry_after},
                     absl::StatusCode::kFailedPrecondition, "the service says no");
}

absl::Status Lost() { return absl::UnavailableError("connection reset"); }

CachedResponse Body(std::string body, int http_status) {
  return CachedResponse{.status = CachedResponse::HttpStatus{http_status}, .body = std::move(body)};
}

EffectResult Answer(std::string body, int http_status) {
  return EffectResult::Answered(Body(std::move(body), http_status));
}

RunResult RunFixture::Run(const EffectFunction& fn) {
  const EffectFunction counted = [&](Attempt& attempt) {
    ++fn_calls;
    return fn(attempt);
  };
  return internal::RunOnce(internal::RunContext{.connection = connection,
                                                .environment = environment,
                                                .timer = timer,
                                                .request = request,
                                                .fn = fn ? counted : fn,
                                                .options = options});
}

RunResult RunFixture::RunNothing() {
  RunResult result = Run([](Attempt&) { return Answer("must not be called"); });
  EXPECT_EQ(fn_calls, 0) << "fn was called";
  return result;
}

void RunFixture::Advance(Duration span) {
  environment->Advance(span);
  timer.RunDue();
}

}  // namespace idempotency::testing
