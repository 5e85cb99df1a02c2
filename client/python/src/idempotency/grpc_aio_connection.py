"""The real connection of AsyncClient, over a channel of grpc.aio."""

from __future__ import annotations

import asyncio
from typing import cast

import grpc
import grpc.aio

from ._channel import Caller, channel_options, credentials, failure
from ._convert import from_message, to_message
from .connection import CallOptions, ConnectionOptions, R, Request
from .errors import ConnectionClosed


class AsyncGrpcConnection:
    """Never fails to be made: a service that cannot be reached shows in the calls.

    Belongs to the loop in which it is made. close() it, or use it as an async context manager.
    """

    def __init__(self, options: ConnectionOptions | str) -> None:
        if isinstance(options, str):
            options = ConnectionOptions(target=options)
        secret = credentials(options)
        chosen = channel_options(options)
        self._channel = (
            grpc.aio.insecure_channel(options.target, chosen)
            if secret is None
            else grpc.aio.secure_channel(options.target, secret, chosen)
        )
        self._caller = Caller(options, self._channel)
        self._closed = False

    async def call(self, request: Request[R], options: CallOptions = CallOptions(), /) -> R:
        message = to_message(request)
        metadata = self._caller.metadata()
        try:
            call = self._caller.method(request.METHOD)(
                message,
                timeout=options.timeout.total_seconds(),
                metadata=metadata,
                wait_for_ready=options.wait_for_ready,
            )
            return cast(R, from_message(await call))
        except grpc.aio.AioRpcError as error:
            raise failure(error.code(), error.details(), error.trailing_metadata()) from None
        except grpc.aio.UsageError:
            raise ConnectionClosed from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and not (task and task.cancelling()):
                raise ConnectionClosed from None  # what gRPC raises then: nobody was cancelled
            raise

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()

    async def __aenter__(self) -> AsyncGrpcConnection:
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.close()
