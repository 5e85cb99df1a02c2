"""The first half of a run: reserves until the lease is held, or until it is clear how the run ends
without it."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any, cast

from ._context import RunContext, stopped
from ._held import HeldAttempt, Setup
from ._retry import RetryClock, seconds
from ._steps import Sleep, Steps, call, user_code
from .connection import (
    ReleaseRequest,
    ReserveRequest,
    ReserveResponse,
    Resolution,
    ResolveRequest,
)
from .errors import CallError
from .run import Found, LookUp, RunResult, StopReason
from .types import (
    CachedResponse,
    ErrorReason,
    NextStep,
    Operation,
    Owner,
    ReserveOutcome,
    Verdict,
)

# An answer that took longer than this may have waited for another attempt to end.
PROMPT_ANSWER_S = 0.25
# How long a run that was cancelled goes on asking what its Reserve has got.
ASK_AFTER_CANCEL_S = 5.0
# How often look_up is asked before a run gives up settling what others keep changing.
MAX_LOOK_UPS = 10
# Attempts of one run that may be lost to their own lateness before it gives up.
MAX_LOST_ATTEMPTS = 3
# Longer waits count as this.
LONGEST_WAIT = timedelta(hours=24)

_STOPS = {
    ReserveOutcome.IN_PROGRESS: StopReason.IN_PROGRESS,
    ReserveOutcome.COMPLETED: StopReason.ANSWER_GONE,
    ReserveOutcome.EXPIRED: StopReason.ANSWER_GONE,
    ReserveOutcome.UNRESOLVED: StopReason.UNRESOLVED,
    ReserveOutcome.FINGERPRINT_MISMATCH: StopReason.MISMATCH,
    ReserveOutcome.TOO_OLD: StopReason.TOO_OLD,
}


@dataclasses.dataclass(frozen=True)
class Unprotected:
    """Nothing is held, and the caller wants to go on all the same."""


Acquisition = HeldAttempt | RunResult | Unprotected
# None: ask again.
Next = Acquisition | None


def as_look_up(value: object) -> LookUp:
    if isinstance(value, LookUp):
        return value
    raise TypeError(f"look_up must return a LookUp, and returned {type(value).__name__}")


def _cancelled_before_reserve() -> RunResult:
    return stopped(
        StopReason.CANCELLED,
        NextStep.RESERVE_AGAIN,
        "cancelled by the caller before the operation was held",
    )


def _stopped_by(response: ReserveResponse) -> RunResult:
    """How a run ends that is not let proceed."""
    reason = _STOPS.get(response.outcome, StopReason.REFUSED)
    if reason is StopReason.ANSWER_GONE and response.next_step is NextStep.STOP:
        reason = StopReason.ABANDONED
    operation = response.operation
    return RunResult(
        stop=reason,
        # A next step that this version does not know is a reason to do nothing.
        next_step=response.next_step or NextStep.STOP,
        retry_after=response.retry_after,
        verdict=operation.verdict if operation else Verdict.UNSPECIFIED,
        operation=operation,
        detail=response.detail,
    )


def _not_understood(response: ReserveResponse) -> RunResult:
    return dataclasses.replace(
        _stopped_by(response),
        stop=StopReason.REFUSED,
        next_step=NextStep.STOP,
        detail=f"the service answered {response.outcome.name} and {response.next_step.name}, which "
        "this client does not understand, so nothing was started; update the client. "
        + response.detail,
    )


def _replayed(operation: Operation, response: CachedResponse | None, verdict: Verdict) -> RunResult:
    return RunResult(
        response=response or CachedResponse(),
        verdict=verdict,
        replayed=True,
        next_step=NextStep.USE_RESPONSE,
        operation=operation,
    )


def _is_outage(failure: CallError) -> bool:
    """Whether the service cannot be reached or cannot work, in contrast to "it said no"."""
    if failure.refusal is None:
        return failure.is_transient
    return failure.reason in (ErrorReason.OVERLOADED, ErrorReason.STORE_UNAVAILABLE)


class Acquirer:
    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._options = context.options
        self._request = context.request
        self._environment = context.environment
        self._wait_end = self._now() + seconds(min(context.request.wait, LONGEST_WAIT))
        # Of the Reserve that was answered last.
        self._attempt_id = ""
        self._sent_at = 0.0
        self._waited = False
        self._start_over = context.request.start_over
        self._asked_again = 0
        self._look_ups = 0
        self._lost_attempts = 0

    def acquire(self) -> Steps[Acquisition]:
        while True:
            if self._context.cancelled.cancelled:
                return _cancelled_before_reserve()
            answer = yield from self._reserve()
            if isinstance(answer, CallError):
                found = self._on_failed(answer)
            else:
                found = yield from self._on_reserved(answer)
            if found is not None:
                return found

    def _now(self) -> float:
        return self._environment.monotonic()

    def _wait_left(self) -> float:
        return max(self._wait_end - self._now(), 0.0)

    def _lose_one(self) -> bool:
        """Whether another attempt may be lost."""
        self._lost_attempts += 1
        return self._lost_attempts <= MAX_LOST_ATTEMPTS

    def _release(self, fencing_token: int, detail: str) -> Steps[bool]:
        answer = yield from self._context.settle(
            ReleaseRequest(self._request.id, fencing_token, detail)
        )
        return not isinstance(answer, CallError)

    # --- Asking -----------------------------------------------------------------------------------

    def _make_reserve(self) -> ReserveRequest:
        request = self._request
        wait = 0.0 if self._context.cancelled.cancelled else self._wait_left()
        age = None
        if request.first_sent is not None:
            age = timedelta(
                seconds=max(self._environment.wall() - request.first_sent.timestamp(), 0.0)
            )
        return ReserveRequest(
            id=request.id,
            attempt_id=self._attempt_id,
            fingerprint=request.fingerprint,
            lease_duration=request.lease_duration,
            wait_duration=timedelta(milliseconds=int(wait * 1000)),
            owner=Owner(operation_ref=request.operation_ref, traceparent=request.traceparent),
            labels=request.labels,
            operation_age=age,
            dispatch_later=request.dispatch_later,
            start_over=self._start_over,
        )

    def _reserve(self) -> Steps[ReserveResponse | CallError]:
        """One attempt id for this call and its repetitions: a lost answer does not collide with
        itself. A call that waits is given up where the caller cancels; the next, which does not
        wait, finds out whether it had got hold of the operation."""
        self._attempt_id = self._environment.random_id()
        policy = self._options.retry
        if policy.total < LONGEST_WAIT:
            waits = timedelta(seconds=self._wait_left())
            policy = dataclasses.replace(policy, total=policy.total + waits)
        clock = RetryClock(self._environment, policy, self._options.backoff)
        while True:
            if self._context.cancelled.cancelled:
                clock.end_within(ASK_AFTER_CANCEL_S)
            reserve = self._make_reserve()
            self._waited = reserve.wait_duration > timedelta(0)
            self._sent_at = self._now()
            answer = yield from call(
                reserve,
                clock.timeout() + seconds(reserve.wait_duration),
                ends_on_cancel=self._waited,
                wait_for_ready=clock.wait_for_ready,
            )
            if not isinstance(answer, CallError):
                return answer
            gave_up = self._waited and self._context.cancelled.cancelled and answer.is_transient
            if gave_up:
                continue
            if not (yield from clock.again(answer, answer.is_transient, self._waited)):
                return answer

    def _on_failed(self, failure: CallError) -> Next:
        if failure.reason is ErrorReason.ATTEMPT_FINISHED and self._lose_one():
            return None  # it was granted, and freed again before the answer came
        refusal = failure.refusal
        if self._context.cancelled.cancelled:
            # A Reserve whose answer was lost may hold the key until its lease ends.
            result = dataclasses.replace(_cancelled_before_reserve(), record_open=refusal is None)
        elif _is_outage(failure):
            if self._options.allow_unprotected:
                return Unprotected()
            result = stopped(
                StopReason.UNAVAILABLE,
                NextStep.RESERVE_AGAIN,
                "the idempotency service could not be reached or could not work, so nothing was "
                f"started; try again later: {failure.message}",
            )
        else:
            result = stopped(
                StopReason.REFUSED,
                NextStep.RESERVE_AGAIN if failure.is_transient else NextStep.STOP,
                f"the reservation was refused, so nothing was started: {failure.message}",
            )
        retry_after = refusal.retry_after if refusal else None
        return dataclasses.replace(result, refusal=refusal, retry_after=retry_after)

    def _on_reserved(self, response: ReserveResponse) -> Steps[Next]:
        if response.outcome is ReserveOutcome.UNRESOLVED and response.lease is not None:
            return (yield from self._give_back_lapsed(response))
        step = response.next_step
        granted = response.lease is not None and response.outcome in (
            ReserveOutcome.ACQUIRED,
            ReserveOutcome.ALREADY_HELD,
        )
        # ALREADY_HELD: the id was minted here and fn has not been called, so it was an answer that
        # got lost.
        if step in (NextStep.PROCEED, NextStep.PROCEED_UNLESS_STARTED) and granted:
            return (yield from self._hold(response))
        if step is NextStep.USE_RESPONSE and response.operation is not None:
            operation = response.operation
            return _replayed(operation, operation.response, operation.verdict)
        if step is NextStep.RESERVE_AGAIN:
            return (yield from self._ask_again(response))
        if step is NextStep.LOOK_UP_ANSWER:
            return (yield from self._look_up_answer(response))
        if step is NextStep.RECONCILE_FIRST:
            return (yield from self._reconcile(response))
        if step in (NextStep.SETTLE_OTHER_FIRST, NextStep.USE_OWN_KEY, NextStep.STOP):
            return _stopped_by(response)
        return _not_understood(response)

    def _ask_again(self, response: ReserveResponse) -> Steps[Next]:
        self._asked_again += 1
        delay = self._options.backoff.delay(self._asked_again, self._environment.random())
        if response.retry_after is not None:
            delay = max(delay, seconds(response.retry_after))
        # The service has waited for as long as it may; what is left of the caller's wait is spent
        # here.
        if delay >= self._wait_left():
            return _stopped_by(response)
        yield Sleep(delay, ends_on_cancel=True)
        return None

    # --- Holding ----------------------------------------------------------------------------------

    def _hold(self, response: ReserveResponse) -> Steps[Next]:
        assert response.lease is not None
        context, request, options = self._context, self._request, self._options
        held = HeldAttempt(
            Setup(
                environment=context.environment,
                timer=context.timer,
                start=context.start,
                id=request.id,
                lease=response.lease,
                sent_at=self._sent_at,
                lease_duration=request.lease_duration,
                call_timeout=request.call_timeout,
                dispatch_later=request.dispatch_later,
                renew=options.renew,
                retry=options.retry,
                backoff=options.backoff,
                cancelled=context.cancelled,
            )
        )
        # What is cancelled is given back anyhow.
        if context.cancelled.cancelled or not self._is_in_doubt(response, held):
            return held
        return (yield from self._confirm(held))

    def _is_in_doubt(self, response: ReserveResponse, held: HeldAttempt) -> bool:
        """Whether the lease is renewed before anything starts: one that was waited for may be as
        good as over, and one that is not the first answer's has run for a while."""
        took = self._now() - self._sent_at
        has_run = response.outcome is ReserveOutcome.ALREADY_HELD and not self._options.renew
        return (self._waited and took > PROMPT_ANSWER_S) or has_run or held.remaining <= 0

    def _confirm(self, held: HeldAttempt) -> Steps[Next]:
        confirmed = yield from held.confirm()
        if not isinstance(confirmed, CallError):
            return held
        held.stop_renewing()
        released = yield from self._release(
            held.fencing_token, "the lease was not confirmed before the start"
        )
        if confirmed.is_final_refusal and self._lose_one():
            return None  # it was lost while nobody knew of it
        result = stopped(
            StopReason.UNAVAILABLE,
            NextStep.RESERVE_AGAIN,
            "the lease could not be confirmed, so nothing was started; try again later: "
            + confirmed.message,
        )
        return dataclasses.replace(result, refusal=confirmed.refusal, record_open=not released)

    def _give_back_lapsed(self, response: ReserveResponse) -> Steps[Next]:
        """This attempt's own lease lapsed before its answer came: nothing has been started."""
        assert response.lease is not None
        released = yield from self._release(
            response.lease.fencing_token, "the lease lapsed before its answer arrived"
        )
        return None if released and self._lose_one() else _stopped_by(response)

    # --- Looking up -------------------------------------------------------------------------------

    def _ask(self, operation: Operation) -> Steps[LookUp]:
        look_up = self._options.look_up
        assert look_up is not None
        # What an async look-up returns has been awaited by whoever ran it.
        return as_look_up((yield from user_code(lambda: cast(Any, look_up)(operation))))

    def _look_up_answer(self, response: ReserveResponse) -> Steps[Next]:
        operation = response.operation
        if self._options.look_up is None or operation is None:
            return _stopped_by(response)
        found = yield from self._ask(operation)
        if found.found is not Found.HAPPENED:
            return _stopped_by(response)
        # How it ended is known here; only the answer was not.
        return _replayed(operation, found.response, operation.verdict or found.verdict)

    def _reconcile(self, response: ReserveResponse) -> Steps[Next]:
        self._look_ups += 1
        if self._options.look_up is None or self._look_ups > MAX_LOOK_UPS:
            return _stopped_by(response)
        recorded = response.operation
        operation = recorded or Operation(self._request.id)
        found = yield from self._ask(operation)
        if found.found is Found.HAPPENED:
            if recorded is None:
                return _replayed(operation, found.response, found.verdict)
            return (yield from self._settle_found(recorded, found))
        if found.found is Found.NOT_THERE:
            if recorded is None:
                self._start_over = True
                return None
            return (yield from self._settle_not_there(response, recorded, found))
        return _stopped_by(response)

    def _settle_found(self, operation: Operation, found: LookUp) -> Steps[Next]:
        result = dataclasses.replace(
            _replayed(operation, found.response, found.verdict),
            detail="the look-up found that it had happened",
            record_open=True,
        )
        if not self._options.reconciler:
            return result
        resolved = yield from self._context.settle(
            ResolveRequest(
                id=self._request.id,
                resolution=Resolution.COMPLETED,
                verdict=found.verdict,
                response=found.response,
                actor=self._options.reconciler,
                reason=found.evidence,
                provider_request_id=found.provider_request_id,
                etag=operation.etag,
            )
        )
        if isinstance(resolved, CallError):
            return dataclasses.replace(result, refusal=resolved.refusal)
        return dataclasses.replace(result, record_open=False, operation=resolved)

    def _settle_not_there(
        self, response: ReserveResponse, operation: Operation, found: LookUp
    ) -> Steps[Next]:
        if not self._options.reconciler:
            return _stopped_by(response)
        resolved = yield from self._context.settle(
            ResolveRequest(
                id=self._request.id,
                resolution=Resolution.NOT_EXECUTED,
                actor=self._options.reconciler,
                reason=found.evidence,
                etag=operation.etag,
            )
        )
        if not isinstance(resolved, CallError):
            return None  # free: the next Reserve gets it
        refusal = resolved.refusal
        # Its call may still arrive, or somebody else is at it: worth another look a little later.
        passes = resolved.reason in (
            ErrorReason.NOT_SETTLED,
            ErrorReason.ETAG_MISMATCH,
            ErrorReason.LEASE_LIVE,
        )
        asked = refusal.retry_after if refusal else None
        delay = seconds(asked) if asked else 0.0
        if passes and delay < self._wait_left():
            yield Sleep(delay, ends_on_cancel=True)
            return None
        result = dataclasses.replace(_stopped_by(response), refusal=refusal)
        return dataclasses.replace(result, retry_after=asked) if refusal else result
