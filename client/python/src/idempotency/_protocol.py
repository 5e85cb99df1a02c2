"""One run: the protocol around one call of fn. run.py says what it promises."""

from __future__ import annotations

import dataclasses
import logging
from datetime import timedelta

from ._acquire import Acquirer, Unprotected
from ._context import RunContext, stopped
from ._held import HeldAttempt, UnprotectedAttempt
from ._report import Reporter, judge_effect, unrecorded
from ._retry import seconds
from ._steps import NeverStarted, Steps, UserCode
from .classification import EffectResult
from .errors import NotDispatched
from .run import RunResult, StopReason, as_effect
from .types import NextStep

_log = logging.getLogger("idempotency")

_TIMEOUT_TOO_LONG = (
    "call_timeout: longer than the lease, and renewal is off; shorten it, ask for a longer "
    "lease_duration, or leave renewal on"
)
_ZERO = timedelta(0)


def _what_is_wrong(context: RunContext) -> str | None:
    request, options = context.request, context.options
    if not request.id.namespace:
        return "id.namespace: empty; name the namespace"
    if not request.id.key:
        return "id.key: empty; make the operation's key before its first try, and save it"
    if request.wait < _ZERO:
        return "wait: negative; zero does not wait at all"
    if request.lease_duration is not None and request.lease_duration <= _ZERO:
        return "lease_duration: not above zero; leave it unset for the namespace's default"
    if request.call_timeout is None:
        return None
    if request.call_timeout <= _ZERO:
        return "call_timeout: not above zero; leave it unset for no limit but the lease"
    lease = request.lease_duration
    if not options.renew and lease is not None and request.call_timeout > lease:
        return _TIMEOUT_TOO_LONG
    return None


def _invalid(why: str) -> RunResult:
    return stopped(StopReason.INVALID, NextStep.STOP, why)


def _effect(context: RunContext, attempt: HeldAttempt | UnprotectedAttempt) -> Steps[EffectResult]:
    try:
        return as_effect((yield UserCode(lambda: context.effect(attempt), is_effect=True)))
    except NotDispatched as refused:
        if attempt.may_have_started:
            raise  # of another attempt
        return EffectResult.failed(refused.code, refused.message)


def _run_unprotected(context: RunContext) -> Steps[RunResult]:
    request = context.request
    attempt = UnprotectedAttempt(
        request.id,
        context.environment,
        context.timer,
        request.call_timeout,
        request.dispatch_later,
        context.cancelled,
    )
    try:
        effect = yield from _effect(context, attempt)
    finally:
        attempt.close()
    result = unrecorded((yield from judge_effect(effect, attempt, context.options)))
    detail = "ran without protection, as the service could not be reached"
    return dataclasses.replace(
        result, unprotected=True, detail=f"{detail}; {result.detail}" if result.detail else detail
    )


def _cancelled_before_start() -> RunResult:
    return stopped(
        StopReason.CANCELLED,
        NextStep.RESERVE_AGAIN,
        "cancelled by the caller before the effect was started",
    )


def _free_instead(context: RunContext, held: HeldAttempt) -> Steps[RunResult | None]:
    """None: fn may be called."""
    reporter = Reporter(context, held)
    if context.cancelled.cancelled:
        return (
            yield from reporter.free(
                _cancelled_before_start(), "cancelled before the effect was started"
            )
        )
    # The namespace's default lease is not known before.
    timeout = context.request.call_timeout
    if not context.options.renew and timeout is not None and seconds(timeout) > held.granted:
        return (
            yield from reporter.free(
                _invalid(_TIMEOUT_TOO_LONG), "the call would outlast the lease"
            )
        )
    return None


def _call_and_report(context: RunContext, held: HeldAttempt) -> Steps[RunResult]:
    reporter = Reporter(context, held)
    held.start()
    try:
        effect = yield from _effect(context, held)
        held.let_go_of_fn()
        judgement = yield from reporter.judge(effect)
    except NeverStarted:
        return (
            yield from reporter.free(
                _cancelled_before_start(), "interrupted before the effect was started"
            )
        )
    except GeneratorExit:
        raise  # nobody is left who could tell the service
    except BaseException as error:
        held.let_go_of_fn()
        yield from reporter.report_exception(error)
        raise
    return (yield from reporter.report(judgement))


def run_once(context: RunContext) -> Steps[RunResult]:
    wrong = _what_is_wrong(context)
    if wrong is not None:
        return _invalid(wrong)
    acquired = yield from Acquirer(context).acquire()
    if isinstance(acquired, RunResult):
        return acquired
    if isinstance(acquired, Unprotected):
        _log.warning("the idempotency service cannot be reached: going on without protection")
        return (yield from _run_unprotected(context))
    try:
        result = yield from _free_instead(context, acquired)
        if result is None:
            result = yield from _call_and_report(context, acquired)
    finally:
        acquired.let_go_of_fn()
        acquired.stop_renewing()
    if result.record_open:
        reason = result.refusal.reason.name if result.refusal else "not confirmed"
        _log.warning("how an operation ended is not recorded: %s", reason)
    return result
