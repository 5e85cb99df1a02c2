"""The second half of a run: what the result of fn means, and telling the service."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, cast

from ._acquire import as_look_up
from ._context import RunContext, stopped
from ._held import HeldAttempt, UnprotectedAttempt
from ._steps import Steps, user_code
from .classification import (
    Certainty,
    Classification,
    Disposition,
    EffectResult,
    unknown,
)
from .connection import (
    CompleteRequest,
    MarkUnresolvedRequest,
    MarkUnresolvedResponse,
    ReleaseRequest,
    ReleaseResponse,
)
from .errors import CallError
from .run import Found, RunOptions, RunResult, StopReason
from .types import (
    CachedResponse,
    NextStep,
    Operation,
    OperationState,
    StatusCode,
    UnresolvedCause,
    Verdict,
)

_NOTHING_HAPPENED = Classification(Disposition.NOTHING_HAPPENED)
_UNKNOWN = unknown(UnresolvedCause.OTHER)


@dataclasses.dataclass(frozen=True)
class Judgement:
    classification: Classification
    effect: EffectResult
    # What a look-up said that found no answer, for the history.
    evidence: str = ""

    @property
    def is_unknown(self) -> bool:
        return self.classification.disposition is Disposition.UNKNOWN

    @property
    def is_final(self) -> bool:
        return self.classification.disposition in (Disposition.SUCCEEDED, Disposition.FAILED)


def _classify(effect: EffectResult, options: RunOptions) -> Steps[Classification]:
    if effect.certainty is Certainty.NOTHING_HAPPENED:
        return _NOTHING_HAPPENED
    found = yield from user_code(lambda: options.classify(effect))
    if not isinstance(found, Classification):
        raise TypeError(f"classify must return a Classification, and returned {type(found).__name__}")
    if effect.certainty is Certainty.UNKNOWN and found.disposition is not Disposition.UNKNOWN:
        return _UNKNOWN
    return found


def judge_effect(
    effect: EffectResult, attempt: HeldAttempt | UnprotectedAttempt, options: RunOptions
) -> Steps[Judgement]:
    """Asks the classifier of the options, minding what the caller is certain of. A final failure
    that came as a status becomes an answer that can be replayed."""
    effect = dataclasses.replace(effect, attempt=attempt.number)
    # Nothing can have been sent: fn never got as far as dispatch.
    if (
        not attempt.may_have_started
        and effect.response is None
        and effect.certainty is Certainty.CLASSIFY
    ):
        return Judgement(_NOTHING_HAPPENED, effect)
    judgement = Judgement((yield from _classify(effect, options)), effect)
    error = effect.error
    status_alone = effect.response is None and error is not None and error.code != StatusCode.OK
    if status_alone and error is not None and judgement.is_final:
        response = CachedResponse(grpc_code=int(error.code), status_message=error.message)
        return dataclasses.replace(
            judgement, effect=dataclasses.replace(effect, response=response)
        )
    return judgement


def _answered(effect: EffectResult, verdict: Verdict) -> RunResult:
    response = effect.response or CachedResponse()
    return RunResult(response=response, verdict=verdict, effect_error=effect.error)


def _not_answered(result: RunResult, effect: EffectResult) -> RunResult:
    """What is left of an effect that was no answer."""
    return dataclasses.replace(
        result,
        response=effect.response,
        effect_error=effect.error,
        retry_after=effect.retry_after,
    )


def _nothing_happened(effect: EffectResult) -> RunResult:
    result = stopped(
        StopReason.NOTHING_HAPPENED,
        NextStep.RESERVE_AGAIN,
        "the effect did not happen; it may be tried again",
    )
    return _not_answered(result, effect)


def _unknown(effect: EffectResult) -> RunResult:
    result = stopped(
        StopReason.UNRESOLVED,
        NextStep.RECONCILE_FIRST,
        "whether the effect happened is not known",
    )
    return _not_answered(result, effect)


def _verdict(disposition: Disposition) -> Verdict:
    return Verdict.SUCCEEDED if disposition is Disposition.SUCCEEDED else Verdict.FAILED


def unrecorded(judgement: Judgement) -> RunResult:
    """What the caller of an effect without a record gets."""
    if judgement.is_final:
        return _answered(judgement.effect, _verdict(judgement.classification.disposition))
    if judgement.is_unknown:
        return _unknown(judgement.effect)
    return _nothing_happened(judgement.effect)


class Reporter:
    def __init__(self, context: RunContext, held: HeldAttempt) -> None:
        self._context = context
        self._held = held

    def judge(self, effect: EffectResult) -> Steps[Judgement]:
        """What the effect means; asks the caller's classifier and, where the outcome is unknown,
        the look-up."""
        held, options = self._held, self._context.options
        judgement = yield from judge_effect(effect, held, options)
        look_up = options.look_up
        if not judgement.is_unknown or look_up is None:
            return judgement
        operation = Operation(
            id=held.id,
            state=OperationState.PENDING,
            attempt=held.number,
            dispatched=True,
            provider_request_id=judgement.effect.provider_request_id,
        )
        found = as_look_up((yield from user_code(lambda: cast(Any, look_up)(operation))))
        # Not there yet is not "did not happen": the call may still be on its way.
        if found.found is not Found.HAPPENED:
            return dataclasses.replace(judgement, evidence=found.evidence)
        failed = found.verdict is Verdict.FAILED
        return Judgement(
            Classification(Disposition.FAILED if failed else Disposition.SUCCEEDED),
            dataclasses.replace(
                judgement.effect,
                response=found.response,
                provider_request_id=found.provider_request_id
                or judgement.effect.provider_request_id,
            ),
        )

    def report(self, judgement: Judgement) -> Steps[RunResult]:
        """Returns what the caller gets."""
        if judgement.is_final:
            verdict = _verdict(judgement.classification.disposition)
            return (yield from self._ended(judgement.effect, verdict))
        if judgement.is_unknown:
            return (yield from self._unknown(judgement))
        return (yield from self._nothing_happened(judgement.effect))

    def report_exception(self, error: BaseException) -> Steps[None]:
        """Instead of the two, where fn (or the caller's classifier or look-up) raised. What it did
        before is not known. Its text may hold anything: only its type is told."""
        if not self._held.may_have_started:
            yield from self._release("an exception before the call was dispatched")
            return
        interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
        cause = UnresolvedCause.OWNER_CANCELLED if interrupted else UnresolvedCause.OTHER
        effect = EffectResult.failed(StatusCode.UNKNOWN, f"an exception: {type(error).__name__}")
        yield from self._mark_unresolved(Judgement(unknown(cause), effect))

    def free(self, result: RunResult, detail: str) -> Steps[RunResult]:
        """Instead of calling fn, or where it did nothing."""
        released = yield from self._release(detail)
        if isinstance(released, CallError):
            return dataclasses.replace(
                result,
                record_open=True,
                refusal=released.refusal,
                detail=f"{result.detail}; the service has not recorded that: {released.message}",
            )
        if released.state is not OperationState.UNRESOLVED:
            return result
        nothing = result.stop is StopReason.NOTHING_HAPPENED
        return dataclasses.replace(
            result,
            stop=StopReason.UNRESOLVED if nothing else result.stop,
            detail=f"{result.detail}; what an earlier attempt did is still unknown",
        )

    def _ended(self, effect: EffectResult, verdict: Verdict) -> Steps[RunResult]:
        """Whatever becomes of the record, the caller gets the real answer."""
        completed = yield from self._context.settle(
            CompleteRequest(
                id=self._held.id,
                fencing_token=self._held.fencing_token,
                verdict=verdict,
                response=effect.response,
                provider_request_id=effect.provider_request_id,
            )
        )
        result = dataclasses.replace(_answered(effect, verdict), next_step=NextStep.USE_RESPONSE)
        if not isinstance(completed, CallError):
            return dataclasses.replace(result, operation=completed.operation)
        return dataclasses.replace(
            result,
            record_open=True,
            refusal=completed.refusal,
            detail=f"it ended, and the service has not recorded how: {completed.message}",
        )

    def _nothing_happened(self, effect: EffectResult) -> Steps[RunResult]:
        result = _nothing_happened(effect)
        if self._context.cancelled.cancelled:
            result = dataclasses.replace(result, stop=StopReason.CANCELLED)
        return (yield from self.free(result, effect.error.message if effect.error else ""))

    def _unknown(self, judgement: Judgement) -> Steps[RunResult]:
        marked = yield from self._mark_unresolved(judgement)
        result = _unknown(judgement.effect)
        if not isinstance(marked, CallError):
            return dataclasses.replace(
                result,
                operation=marked.operation,
                next_step=marked.next_step,
                retry_after=marked.retry_after,
            )
        return dataclasses.replace(
            result,
            record_open=True,
            refusal=marked.refusal,
            detail=f"{result.detail}, and the service has not recorded that: {marked.message}",
        )

    def _release(self, detail: str) -> Steps[ReleaseResponse | CallError]:
        request = ReleaseRequest(self._held.id, self._held.fencing_token, detail)
        return (yield from self._context.settle(request))

    def _mark_unresolved(self, judgement: Judgement) -> Steps[MarkUnresolvedResponse | CallError]:
        effect, classification = judgement.effect, judgement.classification
        detail = effect.error.message if effect.error else ""
        if judgement.evidence:
            detail += ("; " if detail else "") + f"look-up: {judgement.evidence}"
        return (
            yield from self._context.settle(
                MarkUnresolvedRequest(
                    id=self._held.id,
                    fencing_token=self._held.fencing_token,
                    cause=classification.cause,
                    detail=detail,
                    provider_request_id=effect.provider_request_id,
                    retry_after=effect.retry_after,
                    reconcile_first=classification.reconcile_first,
                )
            )
        )
