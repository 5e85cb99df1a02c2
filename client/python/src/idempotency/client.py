"""Wraps one outbound effect in the whole protocol (run.py), with threads; aio.py is for asyncio.

    client = idempotency.Client("127.0.0.1:7420")
    result = client.run(
        RunRequest(
            OperationId("payments", account, order_key),   # made and saved before the first try
            fingerprint=fingerprint_bytes("POST", "/v1/charges", body),
        ),
        lambda attempt: charge(body, attempt.provider_key),   # -> EffectResult or CachedResponse
        RunOptions(classify=classify_http),
    )
    if result.has_answer:
        return result.response
    explain(result.stop, result.next_step, result.detail)

or as a decorator, whose function gets the attempt first, and then what it is called with:

    def request_of(order: Order) -> RunRequest: ...

    @client.run(request_of, RunOptions(classify=classify_http))
    def charge(attempt: Attempt, order: Order) -> EffectResult: ...

    result = charge(order)
"""

from __future__ import annotations

import functools
from typing import Callable, Concatenate, ParamSpec, overload

from ._context import RunContext, client_closed
from ._held import CoreAttempt
from ._open import OpenRuns
from ._protocol import run_once
from ._steps import Steps
from ._sync import drive, drive_run, performer
from ._timer import ThreadTimer
from .attempt import Attempt
from .classification import EffectResult
from .connection import Connection, ConnectionOptions
from .grpc_connection import GrpcConnection
from .policies import Environment, SystemEnvironment
from .run import Cancellation, RunOptions, RunRequest, RunResult
from .types import CachedResponse

P = ParamSpec("P")
Effect = Callable[[Attempt], EffectResult | CachedResponse]
DecoratedEffect = Callable[Concatenate[Attempt, P], EffectResult | CachedResponse]


class Client:
    """May be used from any thread. close() it, or use it as a context manager.

    connection: an address, options, or a connection of your own, which stays yours to close.
    """

    def __init__(
        self,
        connection: str | ConnectionOptions | Connection,
        environment: Environment | None = None,
    ) -> None:
        owned = isinstance(connection, (str, ConnectionOptions))
        self._owned = owned
        self._connection: Connection = (
            GrpcConnection(connection)
            if isinstance(connection, (str, ConnectionOptions))
            else connection
        )
        self._environment = environment or SystemEnvironment()
        self._timer = ThreadTimer(self._environment)
        self._runs = OpenRuns()

    @property
    def connection(self) -> Connection:
        """For calls that run does not wrap."""
        return self._connection

    @overload
    def run(
        self, request: RunRequest, fn: Effect, options: RunOptions = ..., /
    ) -> RunResult: ...

    @overload
    def run(
        self, request: Callable[P, RunRequest], options: RunOptions = ..., /
    ) -> Callable[[DecoratedEffect[P]], Callable[P, RunResult]]: ...

    def run(
        self,
        request: RunRequest | Callable[P, RunRequest],
        fn: Effect | RunOptions | None = None,
        options: RunOptions | None = None,
        /,
    ) -> RunResult | Callable[[DecoratedEffect[P]], Callable[P, RunResult]]:
        """Calls fn at most once, on this thread, and never raises for what the service says: the
        result tells it. An exception of fn counts as an unknown outcome, is recorded, and goes on
        to the caller.

        With a function that makes the request instead of a request: a decorator."""
        if isinstance(request, RunRequest):
            if not callable(fn):
                raise TypeError("fn: give the function that calls the provider")
            return self._run(request, fn, options or RunOptions())
        make = request
        chosen = fn if isinstance(fn, RunOptions) else RunOptions()

        def decorate(effect: DecoratedEffect[P]) -> Callable[P, RunResult]:
            @functools.wraps(effect)
            def wrapper(*args: P.args, **kwargs: P.kwargs) -> RunResult:
                return self._run(
                    make(*args, **kwargs), lambda attempt: effect(attempt, *args, **kwargs), chosen
                )

            return wrapper

        return decorate

    def close(self) -> None:
        """Begins nothing any more: further runs are INVALID. Does not wait: a run that goes on, such
        as one that settles after a second Ctrl-C, keeps the connection until it ends."""
        if self._runs.close():
            self._shut()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def _shut(self) -> None:
        self._timer.close()
        if self._owned:
            self._connection.close()

    def _counted(self, context: RunContext) -> Steps[RunResult]:
        """Counts where the protocol runs, which is where no interrupt comes."""
        if not self._runs.enter():
            return client_closed()
        try:
            return (yield from run_once(context))
        finally:
            if self._runs.leave():
                self._shut()

    def _run(self, request: RunRequest, fn: Effect, options: RunOptions) -> RunResult:
        # Of this run: also an interrupt of its thread is one.
        cancelled = Cancellation()
        perform = performer(self._connection, cancelled)

        def drive_call(steps: Steps[None]) -> None:
            drive(steps, perform)

        def effect(core: CoreAttempt) -> EffectResult | CachedResponse:
            return fn(Attempt(core, drive_call))

        context = RunContext(
            environment=self._environment,
            timer=self._timer,
            start=self._connection.start,
            request=request,
            options=options,
            cancelled=cancelled,
            effect=effect,
        )
        unsubscribe = (
            options.cancellation.on_cancel(cancelled.cancel) if options.cancellation else None
        )
        try:
            return drive_run(self._counted(context), perform, cancelled)
        finally:
            if unsubscribe is not None:
                unsubscribe()
