"""The calls of the service, as values: what a client is built on, and what tests replace.

    connection = GrpcConnection("127.0.0.1:7420")
    found = connection.call(GetOperationRequest(id))          # a GetOperationResponse, or CallError

Every call may be repeated: the same ids get the same answer. A CallError without a refusal means
that the call may have been applied or not.

Connections may be used from any thread; asyncio's from its loop alone.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from enum import Enum
from typing import Callable, ClassVar, Generic, Mapping, Protocol, TypeVar

from .errors import CallError
from .types import (
    CachedResponse,
    Fingerprint,
    Lease,
    NextStep,
    Operation,
    OperationId,
    OperationState,
    Owner,
    ReserveOutcome,
    UnresolvedCause,
    Verdict,
)

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Request(Generic[R_co]):
    """One call; R_co is what it answers with."""

    METHOD: ClassVar[str]


# --- What is answered -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ReserveResponse:
    outcome: ReserveOutcome
    next_step: NextStep
    lease: Lease | None = None
    operation: Operation | None = None
    retry_after: timedelta | None = None
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class RenewResponse:
    lease: Lease


@dataclasses.dataclass(frozen=True)
class CompleteResponse:
    operation: Operation
    already_complete: bool = False


@dataclasses.dataclass(frozen=True)
class ReleaseResponse:
    state: OperationState


@dataclasses.dataclass(frozen=True)
class MarkUnresolvedResponse:
    operation: Operation
    next_step: NextStep
    retry_after: timedelta | None = None


@dataclasses.dataclass(frozen=True)
class GetOperationResponse:
    operation: Operation
    next_step: NextStep
    retry_after: timedelta | None = None


@dataclasses.dataclass(frozen=True)
class ListOperationsResponse:
    # Without their responses and digests. May be fewer than asked for, even none.
    operations: tuple[Operation, ...]
    next_page_token: str = ""  # empty: that was all


@dataclasses.dataclass(frozen=True)
class BatchResponse:
    # One for each command, in their order: its response, or what it failed with.
    results: tuple[object, ...] = dataclasses.field(repr=False)


# --- What is asked --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ReserveRequest(Request[ReserveResponse]):
    METHOD = "Reserve"
    id: OperationId
    attempt_id: str = dataclasses.field(repr=False)  # 16-64 bytes, random, for one attempt
    fingerprint: Fingerprint | None = None
    lease_duration: timedelta | None = None  # None: the namespace's default
    wait_duration: timedelta = timedelta(0)
    owner: Owner = Owner()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    operation_age: timedelta | None = None
    dispatch_later: bool = False
    start_over: bool = False


@dataclasses.dataclass(frozen=True)
class RenewRequest(Request[RenewResponse]):
    METHOD = "Renew"
    id: OperationId
    fencing_token: int
    lease_duration: timedelta | None = None
    progress: bytes | None = dataclasses.field(default=None, repr=False)
    dispatched: bool = False
    owner: Owner | None = None


@dataclasses.dataclass(frozen=True)
class CompleteRequest(Request[CompleteResponse]):
    METHOD = "Complete"
    id: OperationId
    fencing_token: int
    verdict: Verdict
    response: CachedResponse | None = None
    provider_request_id: str = ""
    retention: timedelta | None = None


@dataclasses.dataclass(frozen=True)
class ReleaseRequest(Request[ReleaseResponse]):
    METHOD = "Release"
    id: OperationId
    fencing_token: int
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class MarkUnresolvedRequest(Request[MarkUnresolvedResponse]):
    METHOD = "MarkUnresolved"
    id: OperationId
    fencing_token: int
    cause: UnresolvedCause = UnresolvedCause.OTHER
    detail: str = ""
    provider_request_id: str = ""
    retry_after: timedelta | None = None
    reconcile_first: bool = False


@dataclasses.dataclass(frozen=True)
class GetOperationRequest(Request[GetOperationResponse]):
    METHOD = "GetOperation"
    id: OperationId
    wait_duration: timedelta = timedelta(0)
    fingerprint: Fingerprint | None = None


class Resolution(Enum):
    COMPLETED = "COMPLETED"
    NOT_EXECUTED = "NOT_EXECUTED"
    ABANDONED = "ABANDONED"


@dataclasses.dataclass(frozen=True)
class ResolveRequest(Request[Operation]):
    """What the caller wants to settle an UNRESOLVED operation as; needs the reconciler role."""

    METHOD = "ResolveOperation"
    id: OperationId
    resolution: Resolution
    actor: str  # who decided
    reason: str  # on what evidence
    verdict: Verdict = Verdict.SUCCEEDED  # COMPLETED
    response: CachedResponse | None = None  # COMPLETED
    provider_request_id: str = ""
    etag: str = ""  # settle only what was seen


@dataclasses.dataclass(frozen=True)
class ListOperationsRequest(Request[ListOperationsResponse]):
    """For reconcilers and operators; needs their access, as ResolveRequest does."""

    METHOD = "ListOperations"
    namespace: str
    scope: str = ""  # empty: all that the caller may see
    key_prefix: str = dataclasses.field(default="", repr=False)  # empty: all keys
    operation_ref: str = ""  # exactly this one; empty: any
    # As they are now; empty: all but FREED. Where it is just UNRESOLVED: oldest first.
    states: tuple[OperationState, ...] = ()
    min_age: timedelta = timedelta(0)  # last updated at least this long ago
    page_size: int = 0  # at most 1,000; 0: 100
    page_token: str = ""  # next_page_token of the page before, with the same filter


BatchCommand = (
    ReserveRequest
    | RenewRequest
    | CompleteRequest
    | ReleaseRequest
    | MarkUnresolvedRequest
    | GetOperationRequest
)


@dataclasses.dataclass(frozen=True)
class BatchRequest(Request[BatchResponse]):
    """Many independent commands in one call, at most 1,024; none may wait."""

    METHOD = "Batch"
    commands: tuple[BatchCommand, ...] = dataclasses.field(repr=False)


# --- Connections ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CallOptions:
    # How long the call may take in all. A waiting Reserve needs its wait on top.
    timeout: timedelta = timedelta(seconds=10)
    # The call before this one failed for want of a connection: wait for one.
    wait_for_ready: bool = False


Done = Callable[[object], None]


class PendingCall(Protocol):
    """A call that is on its way."""

    def cancel(self) -> None:
        """Ends it early; whether it was applied is then unknown. It is answered all the same."""


class Connection(Protocol):
    """For Client."""

    def call(self, request: Request[R], options: CallOptions = ..., /) -> R:
        """CallError where it fails."""

    def start(self, request: Request[R], options: CallOptions, done: Done, /) -> PendingCall:
        """Without a thread that waits: `done` is called once, on any thread, with the response or
        a CallError, and must not block; it may be called before this returns."""

    def close(self) -> None:
        """Calls that are on their way fail."""


class AsyncConnection(Protocol):
    """For AsyncClient. Cancelling the task that awaits a call ends the call."""

    async def call(self, request: Request[R], options: CallOptions = ..., /) -> R:
        """CallError where it fails."""

    async def close(self) -> None:
        """Calls that are on their way fail."""


@dataclasses.dataclass(frozen=True)
class Tls:
    """PEM; without root certificates: those that gRPC brings."""

    root_certificates: bytes | None = dataclasses.field(default=None, repr=False)
    client_certificate_chain: bytes | None = dataclasses.field(default=None, repr=False)
    client_private_key: bytes | None = dataclasses.field(default=None, repr=False)
    # Checked against the certificate instead of the target's host.
    server_name: str = ""


@dataclasses.dataclass(frozen=True)
class ConnectionOptions:
    # "host:port", "dns:///...", "unix:/path".
    target: str = "127.0.0.1:7420"
    # None: plaintext, for loopback and Unix sockets.
    tls: Tls | None = None
    # Asked for each call, on any thread, and sent as "authorization: Bearer ...". Only over TLS or
    # to a loopback address or a Unix socket; else every call fails with FAILED_PRECONDITION.
    bearer_token: Callable[[], str] | None = dataclasses.field(default=None, repr=False)


def as_failure(answer: object) -> CallError | None:
    return answer if isinstance(answer, CallError) else None
