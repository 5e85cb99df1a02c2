"""Repeats one call of the service until it is answered, refused for good, or the policy ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Callable

from ._steps import Sleep, Steps, call
from .connection import CallOptions, R, Request
from .errors import CallError, ConnectionClosed
from .policies import BackoffPolicy, Environment, RetryPolicy
from .types import StatusCode

# No try gets less: one that cannot succeed is none. So the last may end this much late.
SHORTEST_CALL_TIMEOUT_S = 1.0
CALL_TIMEOUT_S = CallOptions().timeout.total_seconds()


def is_worth_persisting(failure: CallError) -> bool:
    """Where something has happened that must be recorded: whatever is not a final refusal, while
    there is a connection."""
    return not failure.is_final_refusal and not isinstance(failure, ConnectionClosed)


def is_transient(failure: CallError) -> bool:
    return failure.is_transient


def seconds(span: timedelta) -> float:
    return max(span.total_seconds(), 0.0)


class RetryClock:
    """What is left of a policy, from now on, by the environment's monotonic clock."""

    def __init__(self, environment: Environment, policy: RetryPolicy, backoff: BackoffPolicy) -> None:
        self._environment = environment
        self._policy = policy
        self._backoff = backoff
        self._end = environment.monotonic() + seconds(policy.total)
        self._attempts = 0
        # The last try found no connection: the next one waits for it.
        self.wait_for_ready = False

    def _left(self) -> float:
        return self._end - self._environment.monotonic()

    def timeout(self) -> float:
        """Of the next try."""
        return min(max(self._left(), SHORTEST_CALL_TIMEOUT_S), CALL_TIMEOUT_S)

    def end_within(self, span_s: float) -> None:
        """Lets it end earlier than the policy says."""
        self._end = min(self._end, self._environment.monotonic() + span_s)

    def again(self, failure: CallError, may_pass: bool, ends_on_cancel: bool = False) -> Steps[bool]:
        """Whether there is another try after this failure; sleeps until it is due."""
        self._attempts += 1
        most = self._policy.max_attempts
        if not may_pass or (most is not None and self._attempts >= most):
            return False
        delay = self._backoff.delay(self._attempts + 1, self._environment.random())
        if failure.refusal is not None and failure.refusal.retry_after is not None:
            delay = max(delay, seconds(failure.refusal.retry_after))
        if delay >= self._left():
            return False
        self.wait_for_ready = failure.code is StatusCode.UNAVAILABLE and failure.refusal is None
        yield Sleep(delay, ends_on_cancel)
        return True


def persist(
    environment: Environment,
    policy: RetryPolicy,
    backoff: BackoffPolicy,
    may_pass: Callable[[CallError], bool],
    request: Request[R],
    on_send: Callable[[], None] = lambda: None,
) -> Steps[R | CallError]:
    """The last answer is returned, whatever it is."""
    clock = RetryClock(environment, policy, backoff)
    while True:
        on_send()
        answer = yield from call(request, clock.timeout(), wait_for_ready=clock.wait_for_ready)
        if not isinstance(answer, CallError):
            return answer
        if not (yield from clock.again(answer, may_pass(answer))):
            return answer
