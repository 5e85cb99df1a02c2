#include "client/src/report.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {
namespace {

constexpr Classification kNothingHappened{.disposition = Disposition::kNothingHappened};
constexpr Classification kUnknown{.disposition = Disposition::kUnknown};

Classification Classify(const EffectResult& effect, const RunOptions& options) {
  switch (effect.certainty) {
    case EffectResult::Certainty::kNothingHappened:
      return kNothingHappened;
    case EffectResult::Certainty::kUnknown: {
      const Classification classification = options.classify(effect);
      return classification.disposition == Disposition::kUnknown ? classification : kUnknown;
    }
    case EffectResult::Certainty::kClassify:
      break;
  }
  return options.classify(effect);
}

bool IsFinal(Disposition disposition) {
  return disposition == Disposition::kSucceeded || disposition == Disposition::kFailed;
}

// A status alone, as the answer that it is.
CachedResponse AsResponse(const absl::Status& status) {
  CachedResponse response;
  response.status = CachedResponse::GrpcCode{static_cast<int>(status.code())};
  response.status_message = std::string(status.message());
  return response;
}

Verdict VerdictOf(Disposition disposition) {
  return disposition == Disposition::kSucceeded ? Verdict::kSucceeded : Verdict::kFailed;
}

RunResult Answered(EffectResult effect, Verdict verdict) {
  RunResult result;
  result.response = std::move(effect.response).value_or(CachedResponse{});
  result.verdict = verdict;
  result.effect_error = std::move(effect.error);
  return result;
}

// What is left of an effect that was no answer.
RunResult NotAnswered(RunResult result, EffectResult effect) {
  result.response = std::move(effect.response);
  result.effect_error = std::move(effect.error);
  result.retry_after = effect.retry_after;
  return result;
}

RunResult NothingHappened(EffectResult effect) {
  return NotAnswered(Stopped(StopReason::kNothingHappened, NextStep::kReserveAgain,
                             "the effect did not happen; it may be tried again"),
                     std::move(effect));
}

RunResult Unknown(EffectResult effect) {
  return NotAnswered(Stopped(StopReason::kUnresolved, NextStep::kReconcileFirst,
                             "whether the effect happened is not known"),
                     std::move(effect));
}

}  // namespace

Judgement JudgeEffect(EffectResult effect, uint32_t attempt, bool may_have_started,
                      const RunOptions& options) {
  effect.attempt = attempt;
  // Nothing can have been sent: fn never got as far as Dispatch.
  const bool not_started = !may_have_started && !effect.response.has_value() &&
                           effect.certainty == EffectResult::Certainty::kClassify;
  if (not_started) return Judgement{kNothingHappened, std::move(effect), {}};
  Judgement judgement{.classification = Classify(effect, options), .effect = std::move(effect)};
  EffectResult& judged = judgement.effect;
  const bool status_alone = !judged.response.has_value() && !judged.error.ok();
  if (status_alone && IsFinal(judgement.classification.disposition)) {
    judged.response = AsResponse(judged.error);
  }
  return judgement;
}

RunResult Unrecorded(Judgement judgement) {
  switch (judgement.classification.disposition) {
    case Disposition::kSucceeded:
    case Disposition::kFailed:
      return Answered(std::move(judgement.effect), VerdictOf(judgement.classification.disposition));
    case Disposition::kNothingHappened:
      return NothingHappened(std::move(judgement.effect));
    case Disposition::kUnknown:
      break;
  }
  return Unknown(std::move(judgement.effect));
}

Judgement Reporter::Judge(EffectResult effect) const {
  Judgement judgement =
      JudgeEffect(std::move(effect), held_.number(), held_.may_have_started(), context_.options);
  const bool unknown = judgement.classification.disposition == Disposition::kUnknown;
  if (!unknown || !context_.options.look_up) return judgement;

  Operation operation{.id = context_.request.id,
                      .state = OperationState::kPending,
                      .attempt = held_.number(),
                      .dispatched = true};
  operation.provider_request_id = judgement.effect.provider_request_id;
  LookUp found = context_.options.look_up(operation);
  // Not there yet is not "did not happen": the call may still be on its way.
  if (found.found != LookUp::Found::kHappened) {
    judgement.evidence = std::move(found.evidence);
    return judgement;
  }
  judgement.classification.disposition =
      found.verdict == Verdict::kFailed ? Disposition::kFailed : Disposition::kSucceeded;
  judgement.effect.response = std::move(found.response);
  if (!found.provider_request_id.empty()) {
    judgement.effect.provider_request_id = std::move(found.provider_request_id);
  }
  return judgement;
}

RunResult Reporter::Report(Judgement judgement) const {
  switch (judgement.classification.disposition) {
    case Disposition::kSucceeded:
    case Disposition::kFailed:
      return ReportEnded(std::move(judgement.effect),
                         VerdictOf(judgement.classification.disposition));
    case Disposition::kNothingHappened:
      return ReportNothingHappened(std::move(judgement.effect));
    case Disposition::kUnknown:
      break;
  }
  return ReportUnknown(std::move(judgement));
}

// Whatever becomes of the record, the caller gets the real answer.
RunResult Reporter::ReportEnded(EffectResult effect, Verdict verdict) const {
  const CompleteRequest complete{.id = context_.request.id,
                                 .fencing_token = held_.fencing_token(),
                                 .verdict = verdict,
                                 .response = effect.response,
                                 .provider_request_id = effect.provider_request_id};
  const absl::StatusOr<CompleteResponse> completed =
      context_.Settle(&Connection::Complete, complete);
  RunResult result = Answered(std::move(effect), verdict);
  result.next_step = NextStep::kUseResponse;
  if (completed.ok()) {
    result.operation = completed->operation;
    return result;
  }
  result.record_open = true;
  result.refusal = Refused(completed.status());
  result.detail = absl::StrCat("it ended, and the service has not recorded how: ",
                               completed.status().message());
  return result;
}

RunResult Reporter::ReportNothingHappened(EffectResult effect) const {
  const std::string why(effect.error.message());
  RunResult result = NothingHappened(std::move(effect));
  if (context_.IsCancelled()) result.stop = StopReason::kCancelled;
  return Free(std::move(result), why);
}

RunResult Reporter::Free(RunResult result, const std::string& detail) const {
  const absl::StatusOr<ReleaseResponse> released = Release(detail);
  result.record_open = !released.ok();
  if (!released.ok()) {
    result.refusal = Refused(released.status());
    absl::StrAppend(&result.detail, "; the service has not recorded that: ",
                    std::string(released.status().message()));
  } else if (released->state == OperationState::kUnresolved) {
    if (result.stop == StopReason::kNothingHappened) result.stop = StopReason::kUnresolved;
    absl::StrAppend(&result.detail, "; what an earlier attempt did is still unknown");
  }
  return result;
}

RunResult Reporter::ReportUnknown(Judgement judgement) const {
  const absl::StatusOr<MarkUnresolvedResponse> marked = MarkUnresolved(judgement);
  RunResult result = Unknown(std::move(judgement.effect));
  if (marked.ok()) {
    result.operation = marked->operation;
    result.next_step = marked->next_step;
    result.retry_after = marked->retry_after;
    return result;
  }
  result.record_open = true;
  result.refusal = Refused(marked.status());
  absl::StrAppend(&result.detail,
                  ", and the service has not recorded that: ", marked.status().message());
  return result;
}

void Reporter::ReportException() const {
  if (!held_.may_have_started()) {
    (void)Release("an exception before the call was dispatched");
    return;
  }
  (void)MarkUnresolved({kUnknown, EffectResult::Failed(absl::UnknownError("an exception")), {}});
}

absl::StatusOr<ReleaseResponse> Reporter::Release(std::string detail) const {
  return context_.Settle(&Connection::Release,
                         ReleaseRequest{.id = context_.request.id,
                                        .fencing_token = held_.fencing_token(),
                                        .detail = std::move(detail)});
}

absl::StatusOr<MarkUnresolvedResponse> Reporter::MarkUnresolved(const Judgement& judgement) const {
  const EffectResult& effect = judgement.effect;
  MarkUnresolvedRequest mark{.id = context_.request.id,
                             .fencing_token = held_.fencing_token(),
                             .cause = judgement.classification.cause,
                             .detail = std::string(effect.error.message()),
                             .provider_request_id = effect.provider_request_id,
                             .retry_after = effect.retry_after,
                             .reconcile_first = judgement.classification.reconcile_first};
  if (!judgement.evidence.empty()) {
    absl::StrAppend(&mark.detail, mark.detail.empty() ? "" : "; ", "look-up: ", judgement.evidence);
  }
  return context_.Settle(&Connection::MarkUnresolved, mark);
}

}  // namespace idempotency::internal
