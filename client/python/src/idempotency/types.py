"""The words of the service as plain values: no gRPC and no Protocol Buffers type is needed.

Everything here is immutable and may be shared between threads. What the values print of
themselves leaves out keys, bodies, metadata, progress and digests, so that a value in a log or in
a traceback gives none of them away.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Mapping, TypeVar

from ._mend import check, mend_texts

_EnumT = TypeVar("_EnumT", bound="ApiEnum")


class ApiEnum(enum.IntEnum):
    """Numbers and names are those of idempotency.v1; 0 is never sent by the service."""

    @classmethod
    def of(cls: type[_EnumT], number: int) -> _EnumT:
        """What this version does not know reads as UNSPECIFIED, the most careful value."""
        try:
            return cls(number)
        except ValueError:
            return cls(0)


class OperationState(ApiEnum):
    UNSPECIFIED = 0
    PENDING = 1
    COMPLETE = 2
    UNRESOLVED = 3
    EXPIRED = 4
    FREED = 5


class Verdict(ApiEnum):
    UNSPECIFIED = 0
    SUCCEEDED = 1
    FAILED = 2
    ABANDONED = 3


class UnresolvedCause(ApiEnum):
    UNSPECIFIED = 0
    TIMEOUT = 1
    CONNECTION_LOST = 2
    SERVER_ERROR = 3
    OWNER_CANCELLED = 4
    OTHER = 5
    LEASE_LAPSED = 6


class ReserveOutcome(ApiEnum):
    UNSPECIFIED = 0
    ACQUIRED = 1
    ALREADY_HELD = 2
    IN_PROGRESS = 3
    COMPLETED = 4
    UNRESOLVED = 5
    FINGERPRINT_MISMATCH = 6
    EXPIRED = 7
    TOO_OLD = 8


class NextStep(ApiEnum):
    """What a correct caller does next; protos/README.md has the table."""

    UNSPECIFIED = 0
    PROCEED = 1
    PROCEED_UNLESS_STARTED = 2
    RESERVE_AGAIN = 3
    USE_RESPONSE = 4
    LOOK_UP_ANSWER = 5
    RECONCILE_FIRST = 6
    SETTLE_OTHER_FIRST = 7
    USE_OWN_KEY = 8
    STOP = 9


class ErrorReason(ApiEnum):
    UNSPECIFIED = 0
    INVALID_FIELD = 1
    NAMESPACE_NOT_FOUND = 2
    OPERATION_NOT_FOUND = 3
    ACCESS_DENIED = 4
    STALE_FENCING_TOKEN = 5
    UNKNOWN_FENCING_TOKEN = 6
    LEASE_LAPSED = 7
    ALREADY_COMPLETE = 8
    ATTEMPT_FINISHED = 9
    OUTCOME_UNKNOWN = 10
    LEASE_LIVE = 11
    NOT_SETTLED = 12
    WRONG_STATE = 13
    ETAG_MISMATCH = 14
    QUOTA_EXCEEDED = 15
    OVERLOADED = 16
    STORE_FULL = 17
    STORE_UNAVAILABLE = 18
    RECORD_UNREADABLE = 19


class StatusCode(enum.IntEnum):
    """The numbers of google.rpc.Code."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @classmethod
    def of(cls, number: int) -> StatusCode:
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


@dataclasses.dataclass(frozen=True)
class OperationId:
    """Names one logical operation. Exact text; nothing is trimmed or folded.

    The key is made and saved by the caller before the first try (keys.py), and always the same
    for the operation.
    """

    namespace: str  # 1-64 bytes of [a-z0-9._-], starting with a letter
    scope: str = dataclasses.field(repr=False)  # 1-255 bytes of UTF-8: the account or tenant
    key: str = dataclasses.field(repr=False)  # 1-255 bytes of UTF-8


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """Identifies the request that the key is used for (fingerprint.py makes them)."""

    algorithm: str  # for example "sha256/jcs-1"
    digest: bytes = dataclasses.field(repr=False)  # 16-64 bytes


@dataclasses.dataclass(frozen=True)
class Owner:
    """Who is working on an operation. Nothing is decided by it."""

    worker: str = ""  # process or pod
    operation_ref: str = ""  # the caller's own reference
    traceparent: str = ""  # W3C trace context

    def __post_init__(self) -> None:
        mend_texts(self, "worker", "operation_ref", "traceparent")


@dataclasses.dataclass(frozen=True)
class CachedResponse:
    """The answer of the effect, byte for byte as its owner received it."""

    # At most one of the two.
    http_status: int | None = None
    grpc_code: int | None = None
    status_message: str = ""
    content_type: str = ""
    # Headers or trailing metadata worth replaying, in order, repeats allowed; values may be
    # binary. Credential-bearing names are never stored.
    metadata: tuple[tuple[str, bytes], ...] = dataclasses.field(default=(), repr=False)
    # None is not empty.
    body: bytes | None = dataclasses.field(default=None, repr=False)
    # The body was not kept, because it was too large.
    body_omitted: bool = False
    body_size: int = 0
    # Output only: some metadata was not kept.
    metadata_omitted: bool = False

    def __post_init__(self) -> None:
        """TypeError where it could not be sent. Better here, in the function that makes it, than
        when the effect is to be recorded. None for a text is mended."""
        check(self, "body", bytes, type(None))
        mend_texts(self, "status_message", "content_type")
        for field in ("http_status", "grpc_code"):
            status = getattr(self, field)
            if status is not None and not (isinstance(status, int) and -(2**31) <= status < 2**31):
                raise TypeError(f"CachedResponse.{field} must be a number of 32 bits")
        if not (isinstance(self.body_size, int) and 0 <= self.body_size < 2**63):
            raise TypeError("CachedResponse.body_size must be a number of bytes")
        for field in ("body_omitted", "metadata_omitted"):
            check(self, field, bool)
        # What gives its entries only once would be empty when it is sent.
        object.__setattr__(self, "metadata", tuple(self.metadata))
        for name, value in self.metadata:
            if not isinstance(name, str) or not isinstance(value, bytes):
                raise TypeError("CachedResponse.metadata must be pairs of a str and bytes")


@dataclasses.dataclass(frozen=True)
class Lease:
    fencing_token: int
    expire_time: datetime.datetime
    # What was left when the service answered; count it down from before the request was sent.
    remaining: datetime.timedelta
    attempt: int
    progress: bytes | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True)
class Operation:
    """What is known of an operation; None or empty where the service did not say."""

    id: OperationId
    state: OperationState = OperationState.UNSPECIFIED
    fingerprint: Fingerprint | None = None
    owner: Owner = Owner()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    attempt: int = 0
    dispatched: bool = False
    create_time: datetime.datetime | None = None
    update_time: datetime.datetime | None = None
    lease_expire_time: datetime.datetime | None = None
    complete_time: datetime.datetime | None = None
    next_attempt_time: datetime.datetime | None = None
    protection_expire_time: datetime.datetime | None = None
    verdict: Verdict = Verdict.UNSPECIFIED
    unresolved_cause: UnresolvedCause = UnresolvedCause.UNSPECIFIED
    provider_request_id: str = ""
    response: CachedResponse | None = None
    etag: str = ""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why the service refused a call."""

    reason: ErrorReason
    field: str = ""
    retry_after: datetime.timedelta | None = None
