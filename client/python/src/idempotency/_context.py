"""What the parts of one run share."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from ._held import CoreAttempt, Timer
from ._retry import is_worth_persisting, persist
from ._steps import Steps
from .connection import CallOptions, Done, R, RenewRequest, Request
from .errors import CallError
from .policies import Environment
from .run import Cancellation, RunOptions, RunRequest, RunResult, StopReason
from .types import NextStep


@dataclasses.dataclass(frozen=True)
class RunContext:
    environment: Environment
    timer: Timer
    # A renewal that nobody waits for.
    start: Callable[[RenewRequest, CallOptions, Done], object]
    request: RunRequest
    options: RunOptions
    # Of this run: the caller's, or that of its task or thread.
    cancelled: Cancellation
    # Calls the caller's function with the face of the attempt that it expects.
    effect: Callable[[CoreAttempt], Any]

    def settle(self, what: Request[R]) -> Steps[R | CallError]:
        """Reports something that must be recorded, as patiently as settle_retry says, whether the
        caller still waits for it or not."""
        return (
            yield from persist(
                self.environment,
                self.options.settle_retry,
                self.options.backoff,
                is_worth_persisting,
                what,
            )
        )


def client_closed() -> RunResult:
    return stopped(StopReason.INVALID, NextStep.STOP, "the client is closed; make another")


def stopped(reason: StopReason, next_step: NextStep, detail: str) -> RunResult:
    """How a run ends without an answer."""
    return RunResult(stop=reason, next_step=next_step, detail=detail)
