"""The real connection of Client, over a gRPC channel."""

from __future__ import annotations

import threading
from typing import Any, cast

import grpc

from ._channel import Caller, channel_options, credentials, failure
from ._convert import from_message, to_message
from .connection import CallOptions, ConnectionOptions, Done, PendingCall, R, Request
from .errors import CallError, ConnectionClosed
from .types import StatusCode


class _Ended:
    """A call that could not be made."""

    def cancel(self) -> None:
        pass


def _outcome(call: Any) -> object:
    """Of a call that has ended: its response, or a CallError."""
    try:
        return from_message(call.result())
    except grpc.FutureCancelledError:
        return CallError(StatusCode.CANCELLED, "cancelled by the caller")
    except grpc.RpcError:
        return failure(call.code(), call.details(), call.trailing_metadata())
    except Exception as error:  # whoever waits must be told something
        return CallError(StatusCode.INTERNAL, f"the answer was not understood: {type(error).__name__}")


class GrpcConnection:
    """Never fails to be made: a service that cannot be reached shows in the calls.

    Thread-safe. close() it, or use it as a context manager.
    """

    def __init__(self, options: ConnectionOptions | str) -> None:
        if isinstance(options, str):
            options = ConnectionOptions(target=options)
        secret = credentials(options)
        chosen = channel_options(options)
        self._channel = (
            grpc.insecure_channel(options.target, chosen)
            if secret is None
            else grpc.secure_channel(options.target, secret, chosen)
        )
        self._caller = Caller(options, self._channel)

    def call(self, request: Request[R], options: CallOptions = CallOptions(), /) -> R:
        done = threading.Event()
        outcome: list[object] = []

        def on_done(answer: object) -> None:
            outcome.append(answer)
            done.set()

        pending = self.start(request, options, on_done)
        try:
            done.wait()
        except BaseException:
            pending.cancel()
            raise
        if isinstance(outcome[0], CallError):
            raise outcome[0]
        return cast(R, outcome[0])

    def start(self, request: Request[R], options: CallOptions, done: Done, /) -> PendingCall:
        try:
            message = to_message(request)
            metadata = self._caller.metadata()
        except CallError as error:
            done(error)
            return _Ended()
        try:
            call = self._caller.method(request.METHOD).future(
                message,
                timeout=options.timeout.total_seconds(),
                metadata=metadata,
                wait_for_ready=options.wait_for_ready,
            )
        except ValueError:  # what gRPC raises then
            done(ConnectionClosed())
            return _Ended()
        call.add_done_callback(lambda ended: done(_outcome(ended)))
        return cast(PendingCall, call)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> GrpcConnection:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()
