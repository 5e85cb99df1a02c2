"""What a caller of run gives and gets.

    reserve -> (replay | wait | look up | stop with what to do) -> renew in the background
            -> call fn(attempt) -> classify its result -> complete | release | mark unresolved

What run does not do: it never makes a key, never repeats fn, and cannot stop a paused process from
acting after its lease. Hand attempt.fencing_token or attempt.provider_key to the other side.
"""

from __future__ import annotations

import dataclasses
import enum
import threading
from datetime import datetime, timedelta
from typing import Awaitable, Callable, Mapping

from ._mend import check, mend_enum, mend_texts
from .classification import Classifier, EffectError, EffectResult, classify_grpc
from .errors import IdempotencyError
from .policies import BackoffPolicy, RetryPolicy
from .types import (
    CachedResponse,
    Fingerprint,
    NextStep,
    Operation,
    OperationId,
    Refusal,
    Verdict,
)

Unsubscribe = Callable[[], None]


class Cancellation:
    """Ends runs from outside (a caller that has gone, a process that shuts down; one for any number
    of runs): before the effect is dispatched the key is freed, after that it is held and settled
    all the same. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: dict[object, Callable[[], None]] = {}

    def cancel(self) -> None:
        with self._lock:
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def on_cancel(self, callback: Callable[[], None]) -> Unsubscribe:
        """Called once, at once where it is cancelled already; on the cancelling thread. It must not
        block. What is returned ends the subscription."""
        place = object()
        with self._lock:
            if not self._event.is_set():
                self._callbacks[place] = callback
                return lambda: self._forget(place)
        callback()
        return lambda: None

    def wait(self, seconds: float) -> bool:
        """Whether it was cancelled within so many seconds."""
        return self._event.wait(seconds)

    def _forget(self, place: object) -> None:
        with self._lock:
            self._callbacks.pop(place, None)


class Found(enum.Enum):
    UNKNOWN = "UNKNOWN"
    HAPPENED = "HAPPENED"
    NOT_THERE = "NOT_THERE"


@dataclasses.dataclass(frozen=True)
class LookUp:
    """What a look-up found out about an operation whose outcome is unknown."""

    found: Found = Found.UNKNOWN
    # HAPPENED:
    verdict: Verdict = Verdict.SUCCEEDED
    response: CachedResponse | None = None
    provider_request_id: str = ""
    # What was asked and what it said, for the history.
    evidence: str = ""

    def __post_init__(self) -> None:
        check(self, "found", Found)
        mend_enum(self, "verdict", Verdict)
        check(self, "response", CachedResponse, type(None))
        mend_texts(self, "provider_request_id", "evidence")


# The second form is for AsyncClient alone.
LookUpFunction = Callable[[Operation], LookUp] | Callable[[Operation], Awaitable[LookUp]]


@dataclasses.dataclass(frozen=True)
class RunRequest:
    id: OperationId
    fingerprint: Fingerprint | None = None
    # When the caller first sent this operation; lets the service say TOO_OLD instead of guessing.
    first_sent: datetime | None = None
    # None: the namespace's default.
    lease_duration: timedelta | None = None
    # How long to wait where another attempt is at it. Zero: stop at once.
    wait: timedelta = timedelta(seconds=20)
    # How long fn may take at most; then Attempt.should_stop turns true. With renewal off it must
    # fit into the lease. None: while the lease lasts.
    call_timeout: timedelta | None = None
    operation_ref: str = ""
    traceparent: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    # fn calls attempt.dispatch() before the outbound call; a crash before that frees the key.
    dispatch_later: bool = False
    # The caller has found out that an EXPIRED or TOO_OLD operation may be done anew.
    start_over: bool = False

    def __post_init__(self) -> None:
        mend_texts(self, "operation_ref", "traceparent")


@dataclasses.dataclass(frozen=True)
class RunOptions:
    classify: Classifier = classify_grpc
    # Asked on RECONCILE_FIRST, on LOOK_UP_ANSWER, and after an unknown outcome of this run's own
    # attempt. Of an operation that is TOO_OLD it is given no more than the id, and NOT_THERE then
    # starts it over.
    look_up: LookUpFunction | None = None
    # Settle what look_up found, in this name; needs the reconciler role. Empty: only report it.
    reconciler: str = ""
    # Keep the lease alive while fn runs and its result is reported.
    renew: bool = True
    # For reserve, and for renewals that somebody waits for. The wait of the request comes on top.
    retry: RetryPolicy = RetryPolicy()
    # For complete, release and mark unresolved: these do not depend on the caller any more.
    settle_retry: RetryPolicy = RetryPolicy(total=timedelta(minutes=2))
    backoff: BackoffPolicy = BackoffPolicy()
    # Go on without protection where the service cannot be reached, or says that it is overloaded
    # or has no store: the effect may then happen twice. A refusal of any other kind stops all the
    # same. False: fail closed.
    allow_unprotected: bool = False
    cancellation: Cancellation | None = None

    def __post_init__(self) -> None:
        mend_texts(self, "reconciler")


class StopReason(enum.Enum):
    """Why there is no answer."""

    IN_PROGRESS = "IN_PROGRESS"  # another attempt is at it: come back later
    UNRESOLVED = "UNRESOLVED"  # its outcome is unknown: see next_step
    MISMATCH = "MISMATCH"  # the key belongs to another request
    ANSWER_GONE = "ANSWER_GONE"  # it ended, and the answer is not kept: look it up
    ABANDONED = "ABANDONED"  # closed without a known outcome
    TOO_OLD = "TOO_OLD"  # nothing is known of an old operation
    NOTHING_HAPPENED = "NOTHING_HAPPENED"  # this attempt certainly had no effect: try again later
    CANCELLED = "CANCELLED"  # by the caller, before the effect was dispatched
    UNAVAILABLE = "UNAVAILABLE"  # the service could not be reached, or not work: nothing started
    REFUSED = "REFUSED"  # the service refused: see refusal
    INVALID = "INVALID"  # the request cannot work: see detail


@dataclasses.dataclass(frozen=True)
class RunResult:
    # The answer: of this attempt, or replayed. Also what came instead of one, such as a 500, where
    # it stopped as UNRESOLVED or NOTHING_HAPPENED.
    response: CachedResponse | None = None
    verdict: Verdict = Verdict.UNSPECIFIED
    replayed: bool = False
    # None: there is an answer.
    stop: StopReason | None = None
    next_step: NextStep = NextStep.UNSPECIFIED
    retry_after: timedelta | None = None
    refusal: Refusal | None = None
    # How fn's call ended where it did not answer.
    effect_error: EffectError | None = None
    # How this run ended is not recorded: the service has not confirmed it within the settle policy,
    # or has refused (see refusal). Duplicates will find the operation pending or unresolved, or as
    # somebody else has settled it.
    record_open: bool = False
    # It ran without protection (RunOptions.allow_unprotected).
    unprotected: bool = False
    operation: Operation | None = None
    # One sentence for a log or a person.
    detail: str = ""

    @property
    def has_answer(self) -> bool:
        return self.stop is None

    def answer(self) -> CachedResponse:
        """The answer; raises Stopped where there is none."""
        if self.stop is not None:
            raise Stopped(self)
        return self.response or CachedResponse()


class Stopped(IdempotencyError):
    """There is no answer: says why, and what to do next."""

    def __init__(self, result: RunResult) -> None:
        reason = result.stop or StopReason.INVALID
        super().__init__(f"{reason.name}, next step {result.next_step.name}: {result.detail}")
        self.result = result
        self.reason = reason
        self.next_step = result.next_step
        self.retry_after = result.retry_after


def as_effect(value: object) -> EffectResult:
    """What fn returned. A function that returns something else has a bug, and may have had its
    effect: TypeError, which is recorded as unknown."""
    if isinstance(value, EffectResult):
        return value
    if isinstance(value, CachedResponse):
        return EffectResult.answered(value)
    raise TypeError(
        f"the function must return an EffectResult or a CachedResponse, and returned {type(value).__name__}"
    )
