"""What fn is given: one attempt that holds the lease. Lives as long as fn runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Awaitable, Callable

from ._held import CoreAttempt
from ._steps import Steps
from .types import OperationId


class _Attempt:
    def __init__(self, core: CoreAttempt) -> None:
        self._core = core

    @property
    def id(self) -> OperationId:
        return self._core.id

    @property
    def number(self) -> int:
        """From 1. Above 1 an earlier attempt may have had its effect."""
        return self._core.number

    @property
    def fencing_token(self) -> int:
        """For downstream systems that can refuse an older one. 0: unprotected."""
        return self._core.fencing_token

    @property
    def provider_key(self) -> str:
        """The key to send to the provider: the same for every attempt (keys.py)."""
        return self._core.provider_key

    @property
    def progress(self) -> bytes | None:
        """What an earlier attempt saved."""
        return self._core.progress

    @property
    def should_stop(self) -> bool:
        """True as soon as the lease is lost, was not renewed in time, call_timeout has passed, or
        the caller cancelled: begin nothing irreversible any more."""
        return self._core.should_stop

    @property
    def remaining(self) -> timedelta:
        """What is left of the lease by the own monotonic clock, the safety margin taken off. Right
        for the timeout of the outbound call."""
        return timedelta(seconds=self._core.remaining)

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Called once when should_stop turns true, at once where it is; on any thread (with
        asyncio: in the loop), and not after run has returned. It must not block."""
        self._core.on_stop(callback)


class Attempt(_Attempt):
    """Of Client. May be used from any thread while fn runs."""

    def __init__(self, core: CoreAttempt, drive: Callable[[Steps[None]], None]) -> None:
        super().__init__(core)
        self._drive = drive

    def dispatch(self) -> None:
        """Under dispatch_later: says that the outbound call starts. It must not start where this
        raises NotDispatched: let that pass, and the key is freed. Otherwise it returns at once."""
        self._drive(self._core.dispatch())

    def save_progress(self, progress: bytes) -> None:
        """Keeps up to 4 KiB for the next attempt. Waits for the service, at most while the lease
        lasts; CallError where it was not kept."""
        self._drive(self._core.save_progress(progress))


class AsyncAttempt(_Attempt):
    """Of AsyncClient. Belongs to its loop."""

    def __init__(
        self, core: CoreAttempt, drive: Callable[[Steps[Any]], Awaitable[Any]]
    ) -> None:
        super().__init__(core)
        self._drive = drive

    async def dispatch(self) -> None:
        """As Attempt.dispatch."""
        await self._drive(self._core.dispatch())

    async def save_progress(self, progress: bytes) -> None:
        """As Attempt.save_progress."""
        await self._drive(self._core.save_progress(progress))

    async def stopped(self) -> None:
        """Returns when should_stop turns true."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(event.set)

        self.on_stop(tell)
        await event.wait()
