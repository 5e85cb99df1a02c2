"""Wraps one outbound effect in the whole protocol (run.py), with asyncio; client.py is for threads.

    async with idempotency.AsyncClient("127.0.0.1:7420") as client:
        result = await client.run(request, charge, options)     # async def charge(attempt): ...

or as a decorator, as Client.run. A task that is cancelled while it runs still settles: before the
effect was dispatched the key is freed, after that what happened is recorded; then CancelledError
goes on. asyncio.run waits for that when it ends.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from datetime import timedelta
from typing import Any, Awaitable, Callable, Concatenate, ParamSpec, overload

from ._context import RunContext, client_closed
from ._held import CoreAttempt
from ._open import OpenRuns
from ._protocol import run_once
from ._steps import Call, Sleep, Steps, T, UserCode
from ._sync import could_not_be_made
from ._timer import TaskTimer
from .attempt import AsyncAttempt
from .classification import EffectResult
from .connection import AsyncConnection, CallOptions, ConnectionOptions, Done, RenewRequest
from .errors import CallError
from .grpc_aio_connection import AsyncGrpcConnection
from .policies import Environment, SystemEnvironment
from .run import Cancellation, RunOptions, RunRequest, RunResult
from .types import CachedResponse, StatusCode

P = ParamSpec("P")
AsyncEffect = Callable[[AsyncAttempt], Awaitable[EffectResult | CachedResponse]]
DecoratedEffect = Callable[
    Concatenate[AsyncAttempt, P], Awaitable[EffectResult | CachedResponse]
]


class _Driver:
    """Does what the steps of one run say."""

    def __init__(self, connection: AsyncConnection, cancelled: Cancellation) -> None:
        self._connection = connection
        self._cancelled = cancelled
        self._interrupt: asyncio.CancelledError | None = None

    async def drive(self, steps: Steps[T]) -> T:
        """Of a whole run: cancelling the task is told to the steps, and raised at the end."""
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                if self._interrupt is not None:
                    raise self._interrupt from None
                result: T = end.value
                return result
            answer, error = None, None
            try:
                answer = await self._perform(step)
            except BaseException as raised:  # of the caller's functions
                error = raised

    async def drive_call(self, steps: Steps[T]) -> T:
        """Of what fn asks of its attempt: cancelling the task ends it, as fn would expect."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._once(step)

    async def _perform(self, step: Call | Sleep | UserCode) -> Any:
        while True:
            try:
                return await self._once(step)
            except asyncio.CancelledError as interrupt:
                if isinstance(step, UserCode):
                    raise
                self._interrupt = interrupt
                self._cancelled.cancel()
                if isinstance(step, Call) and step.ends_on_cancel:
                    return CallError(StatusCode.CANCELLED, "cancelled by the caller")
                if isinstance(step, Sleep):
                    return None
                # What must be told is told again: every call may be repeated.

    async def _once(self, step: Call | Sleep | UserCode) -> Any:
        if isinstance(step, Call):
            return await self._call(step)
        if isinstance(step, Sleep):
            await self._sleep(step)
            return None
        value = step.run()
        return await value if inspect.isawaitable(value) else value

    async def _call(self, step: Call) -> object:
        options = CallOptions(timedelta(seconds=step.timeout), step.wait_for_ready)
        try:
            if not step.ends_on_cancel:
                return await self._connection.call(step.request, options)
            return await self._unless_cancelled(self._connection.call(step.request, options))
        except CallError as error:
            return error
        except Exception as error:
            return could_not_be_made(error)

    async def _sleep(self, step: Sleep) -> None:
        if not step.ends_on_cancel:
            await asyncio.sleep(step.seconds)
            return
        await self._unless_cancelled(asyncio.sleep(step.seconds))

    async def _unless_cancelled(self, work: Awaitable[Any]) -> Any:
        """Ends as CallError where the caller's Cancellation comes first."""
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()

        def end() -> None:
            loop.call_soon_threadsafe(task.cancel)

        unsubscribe = self._cancelled.on_cancel(end)
        try:
            return await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if self._cancelled.cancelled and not (own and own.cancelling()):
                return CallError(StatusCode.CANCELLED, "cancelled by the caller")
            raise
        finally:
            unsubscribe()
            task.cancel()


class AsyncClient:
    """Belongs to the loop in which it is made. close() it, or use it as an async context manager.

    connection: an address, options, or a connection of your own, which stays yours to close.
    """

    def __init__(
        self,
        connection: str | ConnectionOptions | AsyncConnection,
        environment: Environment | None = None,
    ) -> None:
        self._owned = isinstance(connection, (str, ConnectionOptions))
        self._connection: AsyncConnection = (
            AsyncGrpcConnection(connection)
            if isinstance(connection, (str, ConnectionOptions))
            else connection
        )
        self._environment = environment or SystemEnvironment()
        self._timer = TaskTimer(self._environment)
        self._runs = OpenRuns()
        # Renewals on their way: a task that nobody refers to may be collected.
        self._renewals: set[asyncio.Task[None]] = set()

    @property
    def connection(self) -> AsyncConnection:
        """For calls that run does not wrap."""
        return self._connection

    @overload
    def run(
        self, request: RunRequest, fn: AsyncEffect, options: RunOptions = ..., /
    ) -> Awaitable[RunResult]: ...

    @overload
    def run(
        self, request: Callable[P, RunRequest], options: RunOptions = ..., /
    ) -> Callable[[DecoratedEffect[P]], Callable[P, Awaitable[RunResult]]]: ...

    def run(
        self,
        request: RunRequest | Callable[P, RunRequest],
        fn: AsyncEffect | RunOptions | None = None,
        options: RunOptions | None = None,
        /,
    ) -> (
        Awaitable[RunResult]
        | Callable[[DecoratedEffect[P]], Callable[P, Awaitable[RunResult]]]
    ):
        """As Client.run: calls fn at most once, in this task."""
        if isinstance(request, RunRequest):
            if not callable(fn):
                raise TypeError("fn: give the function that calls the provider")
            return self._run(request, fn, options or RunOptions())
        make = request
        chosen = fn if isinstance(fn, RunOptions) else RunOptions()

        def decorate(effect: DecoratedEffect[P]) -> Callable[P, Awaitable[RunResult]]:
            @functools.wraps(effect)
            async def wrapper(*args: P.args, **kwargs: P.kwargs) -> RunResult:
                return await self._run(
                    make(*args, **kwargs), lambda attempt: effect(attempt, *args, **kwargs), chosen
                )

            return wrapper

        return decorate

    async def close(self) -> None:
        """Begins nothing any more: further runs are INVALID. Does not wait: a run that goes on, such
        as one whose cancelled task still settles, keeps the connection until it ends."""
        if self._runs.close():
            await self._shut()

    async def _shut(self) -> None:
        for renewal in list(self._renewals):
            renewal.cancel()
        if self._owned:
            await self._connection.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.close()

    async def _run(self, request: RunRequest, fn: AsyncEffect, options: RunOptions) -> RunResult:
        if not self._runs.enter():
            return client_closed()
        try:
            return await self._run_open(request, fn, options)
        finally:
            if self._runs.leave():
                await self._shut()

    async def _run_open(
        self, request: RunRequest, fn: AsyncEffect, options: RunOptions
    ) -> RunResult:
        # Of this run: also the cancellation of its task is one.
        cancelled = Cancellation()
        driver = _Driver(self._connection, cancelled)
        context = RunContext(
            environment=self._environment,
            timer=self._timer,
            start=self._start_renewal,
            request=request,
            options=options,
            cancelled=cancelled,
            effect=lambda core: self._effect(fn, core, driver),
        )
        unsubscribe = (
            options.cancellation.on_cancel(cancelled.cancel) if options.cancellation else None
        )
        try:
            return await driver.drive(run_once(context))
        finally:
            if unsubscribe is not None:
                unsubscribe()

    async def _effect(
        self, fn: AsyncEffect, core: CoreAttempt, driver: _Driver
    ) -> EffectResult | CachedResponse:
        return await fn(AsyncAttempt(core, driver.drive_call))

    def _start_renewal(self, request: RenewRequest, options: CallOptions, done: Done) -> object:
        task = asyncio.get_running_loop().create_task(self._renew(request, options, done))
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)
        return task

    async def _renew(self, request: RenewRequest, options: CallOptions, done: Done) -> None:
        try:
            done(await self._connection.call(request, options))
        except CallError as error:
            done(error)
        except Exception as error:
            done(could_not_be_made(error))
