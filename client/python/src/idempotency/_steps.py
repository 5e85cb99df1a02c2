"""The protocol around one call of fn is written once, as generators that yield what is to be done
and are sent what came of it: they know neither threads nor asyncio. _sync.py and _aio.py do what
is yielded, and tests do it with a clock that they move.

    Call      -> the response, or the CallError (as a value)
    Sleep     -> nothing
    UserCode  -> what the caller's function returned; what it raises is raised at the yield
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Generator, TypeVar

from .connection import R, Request
from .errors import CallError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Call:
    request: Request[Any]
    timeout: float  # seconds
    # Ends early, as CANCELLED, where the caller cancels.
    ends_on_cancel: bool = False
    wait_for_ready: bool = False


@dataclasses.dataclass(frozen=True)
class Sleep:
    seconds: float
    ends_on_cancel: bool = False


@dataclasses.dataclass(frozen=True)
class UserCode:
    run: Callable[[], Any]
    # It is fn, which must not be started any more where the caller has been interrupted.
    is_effect: bool = False


Step = Call | Sleep | UserCode
Steps = Generator[Step, Any, T]


class NeverStarted(BaseException):
    """Raised at the yield of the effect: it was not called."""


def call(
    request: Request[R], timeout: float, *, ends_on_cancel: bool = False, wait_for_ready: bool = False
) -> Steps[R | CallError]:
    answer: R | CallError = yield Call(request, timeout, ends_on_cancel, wait_for_ready)
    return answer


def user_code(run: Callable[[], Any]) -> Steps[Any]:
    answer: Any = yield UserCode(run)
    return answer
