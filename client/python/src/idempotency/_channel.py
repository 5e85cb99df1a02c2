"""What both kinds of gRPC connection share: the channel's options, credentials, and what a failed
call says."""

from __future__ import annotations

import importlib.resources
from typing import Any, Callable, Iterable

import grpc
from google.protobuf.message import DecodeError

from ._convert import retry_span
from ._proto.v1 import admin_service_pb2_grpc as admin_grpc
from ._proto.v1 import idempotency_service_pb2_grpc as service_grpc
from ._proto.wire import error_details_pb2 as wire
from .connection import ConnectionOptions
from .errors import CallError
from .types import ErrorReason, Refusal, StatusCode

_VERSION = "0.1.0"
_DOMAIN = "idempotency.v1"
_REASON_TRAILER = "idempotency-reason"
_DETAILS_TRAILER = "grpc-status-details-bin"

Metadata = tuple[tuple[str, str], ...]


def service_config() -> str:
    """client/service_config.json."""
    folder = importlib.resources.files("idempotency") / "_data"
    return (folder / "service_config.json").read_text("utf-8")


def channel_options(options: ConnectionOptions) -> list[tuple[str, Any]]:
    chosen: list[tuple[str, Any]] = [
        ("grpc.service_config", service_config()),
        ("grpc.primary_user_agent", f"idempotency-python/{_VERSION}"),
        # The service takes a ping every 10 s. A connection that was cut without a word is noticed
        # after the two together, while calls are on it.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        # A service that was away for long is found again soon.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        # The service is named outright; a proxy for the web has no part in it.
        ("grpc.enable_http_proxy", 0),
    ]
    if options.tls is not None and options.tls.server_name:
        chosen.append(("grpc.ssl_target_name_override", options.tls.server_name))
    return chosen


def credentials(options: ConnectionOptions) -> Any:
    """None: plaintext."""
    tls = options.tls
    if tls is None:
        return None
    return grpc.ssl_channel_credentials(
        tls.root_certificates, tls.client_private_key, tls.client_certificate_chain
    )


def is_local_target(target: str) -> bool:
    """Whether what is sent in plain text stays on this machine."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    # A list of addresses, of which any may be elsewhere.
    if "," in target:
        return False
    for scheme in ("dns:///", "dns:", "ipv4:", "ipv6:"):
        target = target.removeprefix(scheme)
    if target == "localhost" or target.startswith(("localhost:", "[::1]")) or target == "::1":
        return True
    # 127.0.0.1, and not a name such as 127.example.org.
    host = target.partition(":")[0]
    return host.startswith("127.") and not host.strip("0123456789.")


class Caller:
    """The methods by name, and what is sent with each call."""

    def __init__(self, options: ConnectionOptions, channel: Any) -> None:
        self._exposed = options.tls is None and not is_local_target(options.target)
        self._token: Callable[[], str] | None = options.bearer_token
        self._stubs = (
            service_grpc.IdempotencyServiceStub(channel),  # type: ignore[no-untyped-call]
            admin_grpc.IdempotencyAdminServiceStub(channel),  # type: ignore[no-untyped-call]
        )

    def method(self, name: str) -> Any:
        service, admin = self._stubs
        return getattr(service, name, None) or getattr(admin, name)

    def metadata(self) -> Metadata:
        if self._token is None:
            return ()
        if self._exposed:
            raise CallError(
                StatusCode.FAILED_PRECONDITION,
                "a bearer token is not sent in plain text over a network: set "
                "ConnectionOptions.tls, or connect to a loopback address or a Unix socket",
            )
        return (("authorization", f"Bearer {self._token()}"),)


def _details(data: bytes) -> tuple[str, str, Any]:
    """reason, field and retry_after; empty and None where nothing is said."""
    reason, field, retry_after = "", "", None
    try:
        status = wire.ErrorStatus.FromString(data)
        for any_message in status.details:
            name = any_message.type_url.rpartition("/")[2]
            if name == "google.rpc.ErrorInfo":
                info = wire.ErrorInfo.FromString(any_message.value)
                reason = info.reason if info.domain == _DOMAIN else reason
            elif name == "google.rpc.BadRequest":
                bad = wire.BadRequest.FromString(any_message.value)
                field = bad.field_violations[0].field if bad.field_violations else field
            elif name == "google.rpc.RetryInfo":
                retry = wire.RetryInfo.FromString(any_message.value)
                retry_after = retry_span(retry.retry_delay)
    except DecodeError:
        pass  # what came with the error is not the service's; the code says enough
    return reason, field, retry_after


def failure(code: Any, message: str | None, trailers: Iterable[tuple[str, Any]] | None) -> CallError:
    """What a call that gRPC gave up says."""
    reason, data = "", b""
    for name, value in trailers or ():
        if name == _REASON_TRAILER:
            reason = value.decode("ascii", "replace") if isinstance(value, bytes) else value
        elif name == _DETAILS_TRAILER and isinstance(value, bytes):
            data = value
    said, field, retry_after = _details(data)
    number = code.value[0] if isinstance(code, grpc.StatusCode) else 2
    known = ErrorReason.__members__.get(reason or said, ErrorReason.UNSPECIFIED)
    refusal = None
    if known is not ErrorReason.UNSPECIFIED:
        refusal = Refusal(known, field, retry_after)
    return CallError(StatusCode.of(number), message or "", refusal)
