"""Does what the steps of a run say, with threads that wait.

On the main thread an exception can come out of nowhere, between any two lines: KeyboardInterrupt,
and whatever a program's signal handlers raise. What settles an effect must not be torn by it. So
there the protocol has a thread of its own for as long as the run lasts, which no signal reaches,
and the main thread only does what is the caller's: its function, its classifier, its look-up. An
interrupt is a cancellation, and is raised once all is settled; a second one is raised at once, and
the thread goes on settling (it is no daemon: the process waits for it).
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from datetime import timedelta
from typing import Any, Callable

from ._steps import Call, NeverStarted, Sleep, Step, Steps, T, UserCode
from .connection import CallOptions, Connection
from .errors import CallError
from .run import Cancellation
from .types import StatusCode

_log = logging.getLogger("idempotency")

Perform = Callable[[Step], Any]


def could_not_be_made(error: Exception) -> CallError:
    """A connection raised something else, such as what a token's function raises."""
    _log.warning("a call of the service could not be made: %s", type(error).__name__)
    failure = CallError(StatusCode.UNKNOWN, f"the call could not be made: {type(error).__name__}")
    failure.__cause__ = error
    return failure


def perform_call(connection: Connection, step: Call, cancelled: Cancellation) -> object:
    """The response, or the CallError."""
    options = CallOptions(timedelta(seconds=step.timeout), step.wait_for_ready)
    try:
        if not step.ends_on_cancel:
            return connection.call(step.request, options)
        ended = threading.Event()
        outcome: list[object] = []

        def on_done(answer: object) -> None:
            outcome.append(answer)
            ended.set()

        pending = connection.start(step.request, options, on_done)
        unsubscribe = cancelled.on_cancel(pending.cancel)
        ended.wait()
        unsubscribe()
        return outcome[0]
    except CallError as error:
        return error
    except Exception as error:
        return could_not_be_made(error)


def performer(connection: Connection, cancelled: Cancellation) -> Perform:
    """Does everything on the thread that calls it."""

    def perform(step: Step) -> Any:
        if isinstance(step, Call):
            return perform_call(connection, step, cancelled)
        if isinstance(step, Sleep):
            (cancelled if step.ends_on_cancel else Cancellation()).wait(step.seconds)
            return None
        return step.run()

    return perform


def drive(steps: Steps[T], perform: Perform) -> T:
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, error = None, None
        try:
            answer = perform(step)
        except BaseException as raised:
            error = raised


# The number of no question: the caller has left.
_GONE = -1
# Instead of a question: there are no more.
_END: tuple[int, UserCode | None] = (0, None)
# A signal that arrives just before the main thread begins to wait does not end that wait: so it
# wakes up now and then, and no interrupt is noticed later than that.
_LOOK_S = 0.5


class _MainThreadRun:
    """The caller's half stays on this thread; the other half is done by one of its own.

    An interrupt may come between any two lines of run. So what the two threads tell each other goes
    through queues, whose both ends are C code, and may be told twice.
    """

    def __init__(self, steps: Steps[T], perform: Perform, cancelled: Cancellation) -> None:
        self._steps = steps
        self._perform = perform
        self._cancelled = cancelled
        # Whether the protocol may begin.
        self._gate: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._asked: queue.SimpleQueue[tuple[int, UserCode | None]] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        # What was asked last, and the last of it that was begun.
        self._question: tuple[int, UserCode | None] = (0, None)
        self._begun = 0
        self._caller_has_left = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._interrupt: BaseException | None = None
        self._ended = False

    def run(self) -> Any:
        thread = threading.Thread(target=self._protocol, name="idempotency-run", daemon=False)
        started = False
        try:
            while True:
                try:
                    if not started:
                        thread.start()
                        started = True
                        self._gate.put(True)
                    number, code = self._asked.get(timeout=_LOOK_S)
                    if code is None:
                        break
                    self._do(number, code)
                except queue.Empty:
                    continue
                except BaseException as interrupt:
                    if not started:
                        self._gate.put(False)
                        raise
                    self._on_interrupt(interrupt)
        finally:
            self._answered.put((_GONE, None, None))
        if self._error is not None:
            raise self._error
        if self._interrupt is not None:
            raise self._interrupt
        return self._result

    def _on_interrupt(self, interrupt: BaseException) -> None:
        second = self._interrupt is not None
        self._interrupt = self._interrupt or interrupt
        self._gate.put(True)
        self._cancelled.cancel()
        number, code = self._question
        if code is None or self._begun == number:
            # Ends with it; where it has been answered already, this is ignored.
            self._answered.put((number, None, interrupt))
        elif code.is_effect:
            self._answered.put((number, None, NeverStarted()))
        else:
            self._asked.put((number, code))
        # What was just taken may have gone with the interrupt: the end as well as a question.
        if self._ended:
            self._asked.put(_END)
        if second:
            raise interrupt

    def _do(self, number: int, code: UserCode) -> None:
        """On the caller's thread."""
        if number == self._begun:
            return  # it was asked twice
        if code.is_effect and self._interrupt is not None:
            self._answered.put((number, None, NeverStarted()))
            return
        self._begun = number
        try:
            answer = code.run()
        except Exception as error:
            self._answered.put((number, None, error))
            return
        self._answered.put((number, answer, None))

    def _ask(self, code: UserCode) -> Any:
        """On the protocol's thread."""
        number = next(self._numbers)
        self._question = (number, code)
        self._asked.put((number, code))
        while not self._caller_has_left:
            answered, answer, error = self._answered.get()
            if answered == _GONE:
                self._caller_has_left = True
            elif answered == number:  # and not of a question that had been answered already
                if error is not None:
                    raise error
                return answer
        if code.is_effect:
            raise NeverStarted
        # What is left to be judged of an effect that has ended.
        return code.run()

    def _protocol(self) -> None:
        if not self._gate.get():
            return
        try:
            self._result = drive(self._steps, self._step)
        except BaseException as error:
            self._error = error
        finally:
            self._ended = True
            self._asked.put(_END)

    def _step(self, step: Step) -> Any:
        return self._ask(step) if isinstance(step, UserCode) else self._perform(step)


def drive_run(steps: Steps[T], perform: Perform, cancelled: Cancellation) -> T:
    """A whole run, with the caller's functions on this thread."""
    if threading.current_thread() is not threading.main_thread():
        return drive(steps, perform)
    result: T = _MainThreadRun(steps, perform, cancelled).run()
    return result
