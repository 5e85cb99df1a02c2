"""The attempt that fn is given: it knows how long its lease lasts by the own clock, keeps it alive
in the background, and says when it is lost.

    held.start()
    fn(held)
    held.let_go_of_fn()      # nothing of fn's is called any more
    ... report the result ...
    held.stop_renewing()

Two things are in the timer meanwhile: the next renewal, and a watch over the end of the lease and
of fn's time. A renewal's answer may come at any time, even when all is over.

May be used from any thread.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
from datetime import timedelta
from typing import Callable, Protocol

from ._retry import CALL_TIMEOUT_S, SHORTEST_CALL_TIMEOUT_S, is_transient, persist, seconds
from ._steps import Steps
from .connection import CallOptions, Done, RenewRequest, RenewResponse
from .errors import CallError, NotDispatched
from .keys import provider_key
from .policies import BackoffPolicy, Environment, RetryPolicy
from .run import Cancellation, Unsubscribe
from .types import ErrorReason, Lease, OperationId, StatusCode

_log = logging.getLogger("idempotency")

# Renewals do not follow closer upon each other, however short the lease has become.
RENEWAL_GAP_S = 0.25
_A_DAY_S = 86_400.0

# What says that the lease is somebody else's, or nobody's.
_LEASE_LOST = frozenset(
    {
        ErrorReason.OPERATION_NOT_FOUND,
        ErrorReason.STALE_FENCING_TOKEN,
        ErrorReason.UNKNOWN_FENCING_TOKEN,
        ErrorReason.LEASE_LAPSED,
        ErrorReason.ALREADY_COMPLETE,
        ErrorReason.ATTEMPT_FINISHED,
        ErrorReason.OUTCOME_UNKNOWN,
    }
)


class Timer(Protocol):
    """Does small things when they are due, for all running operations of a client."""

    def at(self, due: float, action: Callable[[], None]) -> object:
        """Calls `action` once, when the environment's monotonic clock has reached `due`."""

    def cancel(self, place: object) -> None:
        """Drops the action."""


class CoreAttempt(Protocol):
    """What the attempts of sync and asyncio are faces of."""

    @property
    def id(self) -> OperationId: ...

    @property
    def number(self) -> int: ...

    @property
    def fencing_token(self) -> int: ...

    @property
    def provider_key(self) -> str: ...

    @property
    def progress(self) -> bytes | None: ...

    @property
    def should_stop(self) -> bool: ...

    @property
    def remaining(self) -> float: ...

    def on_stop(self, callback: Callable[[], None]) -> None: ...

    def dispatch(self) -> Steps[None]: ...

    def save_progress(self, progress: bytes) -> Steps[None]: ...


class _StopSignal:
    """Turns on once, and tells. Nothing is told once the subscribers are let go of."""

    def __init__(self) -> None:
        self._signal = Cancellation()
        # Held while a callback runs: whoever lets go waits for it, unless called from it.
        self._telling = threading.RLock()
        self._silent = False

    @property
    def is_on(self) -> bool:
        return self._signal.cancelled

    def turn_on(self) -> None:
        self._signal.cancel()

    def subscribe(self, callback: Callable[[], None]) -> None:
        def tell() -> None:
            with self._telling:
                if not self._silent:
                    callback()

        self._signal.on_cancel(tell)

    def let_go(self) -> None:
        with self._telling:
            self._silent = True


def lease_margin(lease_s: float) -> float:
    """How much of a lease is not relied on: a tenth of it, at least a second, at most half."""
    return min(max(lease_s / 10, 1.0), lease_s / 2)


@dataclasses.dataclass
class Setup:
    environment: Environment
    timer: Timer
    # A renewal that nobody waits for.
    start: Callable[[RenewRequest, CallOptions, Done], object]
    id: OperationId
    lease: Lease
    # Monotonic time from before the request that returned the lease was sent.
    sent_at: float
    lease_duration: timedelta | None
    call_timeout: timedelta | None
    dispatch_later: bool
    renew: bool
    retry: RetryPolicy
    backoff: BackoffPolicy
    cancelled: Cancellation


class HeldAttempt:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.id = setup.id
        self.number = setup.lease.attempt
        self.fencing_token = setup.lease.fencing_token
        self.provider_key = provider_key(setup.id)
        self.progress = setup.lease.progress
        self._stop = _StopSignal()
        self._lock = threading.Lock()
        # When the lease ends and when fn's time does, by the own monotonic clock; the margin of the
        # lease taken off.
        self._lease_end = -math.inf
        self._call_end = math.inf
        # When half of the newest lease, or of what can be relied on of it, has gone.
        self._half = -math.inf
        self._granted = 0.0
        self._active = False
        self._may_have_started = not setup.dispatch_later
        self._failed_renewals = 0
        self._renewal: object = None
        self._watch: object = None
        self._accept(setup.lease, setup.sent_at)
        self._on_cancelled: Unsubscribe = setup.cancelled.on_cancel(self._stop.turn_on)

    # --- The lease --------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._setup.environment.monotonic()

    def _renewal_request(
        self, progress: bytes | None = None, dispatched: bool = False
    ) -> RenewRequest:
        return RenewRequest(
            self.id, self.fencing_token, self._setup.lease_duration, progress, dispatched
        )

    def confirm(self) -> Steps[RenewResponse | CallError]:
        """Extends the lease now, repeated as often as the retry policy says. A response: it is
        held, and counts from before this call."""
        return (yield from self._renew_with(self._renewal_request(), self._setup.retry))

    def _renew_with(
        self, request: RenewRequest, policy: RetryPolicy
    ) -> Steps[RenewResponse | CallError]:
        sent_at = self._now()

        def note() -> None:
            nonlocal sent_at
            sent_at = self._now()

        setup = self._setup
        answer = yield from persist(
            setup.environment, policy, setup.backoff, is_transient, request, note
        )
        if isinstance(answer, CallError):
            if answer.reason in _LEASE_LOST:
                self._stop.turn_on()
        else:
            self._accept(answer.lease, sent_at)
        return answer

    def _while_held(self) -> RetryPolicy:
        """As often as the policy and the lease allow."""
        policy = self._setup.retry
        left = timedelta(seconds=self.remaining)
        return dataclasses.replace(policy, total=min(policy.total, left))

    def _accept(self, lease: Lease, sent_at: float) -> None:
        """It counts from before the request was sent, and never gets shorter."""
        remaining = seconds(lease.remaining)
        usable = remaining - lease_margin(remaining)
        with self._lock:
            self._failed_renewals = 0
            self._granted = max(self._granted, remaining)
            self._lease_end = max(self._lease_end, sent_at + usable)
            self._half = max(self._half, sent_at + usable / 2)

    @property
    def remaining(self) -> float:
        """In seconds."""
        with self._lock:
            return max(self._lease_end - self._now(), 0.0)

    @property
    def granted(self) -> float:
        """The longest lease that the service has given, in seconds."""
        with self._lock:
            return self._granted

    # --- In the background ------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to renew, whenever half of what can be relied on has gone, and to count fn's
        time."""
        with self._lock:
            self._active = True
            if self._setup.call_timeout is not None:
                self._call_end = self._now() + seconds(self._setup.call_timeout)
            self._watch_at(min(self._lease_end, self._call_end))
            if self._setup.renew:
                self._renew_at(self._half)

    def let_go_of_fn(self) -> None:
        """After it, nothing that was given to on_stop runs or will run."""
        self._stop.let_go()

    def stop_renewing(self) -> None:
        self._on_cancelled()
        with self._lock:
            if not self._active:
                return
            self._active = False
            places = [place for place in (self._renewal, self._watch) if place is not None]
        for place in places:
            self._setup.timer.cancel(place)

    def _renew_at(self, due: float) -> None:
        if self._active:
            self._renewal = self._setup.timer.at(due, self._renew_in_background)

    def _watch_at(self, due: float) -> None:
        if self._active:
            self._watch = self._setup.timer.at(due, self._on_watch)

    def _renew_in_background(self) -> None:
        with self._lock:
            if not self._active:
                return
            # A renewal that somebody waited for has made this one unnecessary for a while.
            if self._half > self._now() and self._failed_renewals == 0:
                self._renew_at(self._half)
                return
            left = max(self._lease_end - self._now(), 0.0)
        timeout = min(max(left, SHORTEST_CALL_TIMEOUT_S), CALL_TIMEOUT_S)
        options = CallOptions(timeout=timedelta(seconds=timeout))
        sent_at = self._now()
        self._setup.start(
            self._renewal_request(), options, lambda answer: self._on_renewed(answer, sent_at)
        )

    def _on_renewed(self, answer: object, sent_at: float) -> None:
        if isinstance(answer, RenewResponse):
            self._accept(answer.lease, sent_at)
            with self._lock:
                self._renew_at(max(self._half, self._now() + RENEWAL_GAP_S))
            return
        failure = answer if isinstance(answer, CallError) else CallError(StatusCode.UNKNOWN, "")
        if failure.is_final_refusal:
            with self._lock:
                active = self._active
            if active:
                _log.warning("a lease was lost while its function ran: %s", failure.reason.name)
            self._stop.turn_on()
            return
        # It may pass. The lease may end meanwhile, which the watch tells; even then it is worth
        # trying while the result is reported: it keeps others away.
        asked = failure.refusal.retry_after if failure.refusal else None
        with self._lock:
            self._failed_renewals += 1
            delay = self._setup.backoff.delay(
                self._failed_renewals + 1, self._setup.environment.random()
            )
            self._renew_at(self._now() + max(delay, seconds(asked) if asked else 0.0))

    def _on_watch(self) -> None:
        with self._lock:
            if not self._active:
                return
            if not self._is_over():
                self._watch_at(min(self._lease_end, self._call_end))
                return
        self._stop.turn_on()

    # --- What fn asks -----------------------------------------------------------------------------

    def _is_over(self) -> bool:
        now = self._now()
        return now >= self._lease_end or now >= self._call_end

    @property
    def should_stop(self) -> bool:
        if not self._stop.is_on:
            with self._lock:
                over = self._is_over()
            if over:
                self._stop.turn_on()
        return self._stop.is_on

    def on_stop(self, callback: Callable[[], None]) -> None:
        self._stop.subscribe(callback)

    @property
    def may_have_started(self) -> bool:
        """Whether the outbound call may have started."""
        with self._lock:
            return self._may_have_started

    def _must_not_start(self) -> None:
        if self.should_stop:
            raise NotDispatched(
                StatusCode.CANCELLED,
                "the lease is lost, the time is up, or the caller cancelled: do not start the call",
            )

    def dispatch(self) -> Steps[None]:
        if self.may_have_started:
            return
        self._must_not_start()
        told = yield from self._renew_with(self._renewal_request(dispatched=True), self._while_held())
        if isinstance(told, CallError):
            raise NotDispatched(told.code, told.message) from told
        self._must_not_start()
        with self._lock:
            self._may_have_started = True

    def save_progress(self, progress: bytes) -> Steps[None]:
        kept = yield from self._renew_with(self._renewal_request(progress), self._while_held())
        if isinstance(kept, CallError):
            raise kept


class UnprotectedAttempt:
    """What fn is given where the service cannot be reached and the caller wants to go on all the
    same: nothing is held, and there is nothing to lose."""

    # An earlier one that nobody knows of may have had its effect.
    number = 2
    fencing_token = 0
    progress = None

    def __init__(
        self,
        id: OperationId,
        environment: Environment,
        timer: Timer,
        call_timeout: timedelta | None,
        dispatch_later: bool,
        cancelled: Cancellation,
    ) -> None:
        self.id = id
        # Whether the outbound call may have started.
        self.may_have_started = not dispatch_later
        self.provider_key = provider_key(id)
        self._environment = environment
        self._timer = timer
        self._stop = _StopSignal()
        limit = _A_DAY_S if call_timeout is None else min(seconds(call_timeout), _A_DAY_S)
        self._end = environment.monotonic() + limit
        self._watch = timer.at(self._end, self._stop.turn_on)
        self._on_cancelled = cancelled.on_cancel(self._stop.turn_on)

    def close(self) -> None:
        self._stop.let_go()
        self._on_cancelled()
        self._timer.cancel(self._watch)

    @property
    def should_stop(self) -> bool:
        if self.remaining <= 0:
            self._stop.turn_on()
        return self._stop.is_on

    @property
    def remaining(self) -> float:
        """Of call_timeout; a day where there is none."""
        return max(self._end - self._environment.monotonic(), 0.0)

    def on_stop(self, callback: Callable[[], None]) -> None:
        self._stop.subscribe(callback)

    def dispatch(self) -> Steps[None]:
        if self.may_have_started:
            return
        if self.should_stop:
            raise NotDispatched(
                StatusCode.CANCELLED, "the time is up or the caller cancelled: do not start the call"
            )
        self.may_have_started = True
        return
        yield

    def save_progress(self, progress: bytes) -> Steps[None]:
        raise CallError(
            StatusCode.FAILED_PRECONDITION,
            "nothing is held, so progress cannot be kept: the service could not be reached",
        )
        yield
