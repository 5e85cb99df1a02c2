"""What an answer of the effect means for its operation: the one judgement that decides whether a
caller is charged twice. Classifiers are functions; the default tables and those of providers.py
can be replaced. A landed effect that is taken for "nothing happened" is done twice, so what may
hide one is unknown. That includes every call that ended without an answer: that a connection was
refused before anything was sent is certain only to whoever made it, who says so with
EffectResult.nothing_happened.
"""

from __future__ import annotations

import dataclasses
import enum
from datetime import timedelta
from typing import Any, Callable

from ._mend import check, mend_enum, mend_span, mend_texts
from .types import CachedResponse, StatusCode, UnresolvedCause


class Certainty(enum.Enum):
    CLASSIFY = "CLASSIFY"
    NOTHING_HAPPENED = "NOTHING_HAPPENED"
    UNKNOWN = "UNKNOWN"


@dataclasses.dataclass(frozen=True)
class EffectError:
    """How a call ended that got no answer."""

    code: StatusCode
    message: str = ""

    def __post_init__(self) -> None:
        mend_enum(self, "code", StatusCode)
        mend_texts(self, "message")


@dataclasses.dataclass(frozen=True)
class EffectResult:
    """What the caller's function saw of the effect. None for a text, as of a header that is not
    there, counts as empty; what is of a wrong type raises TypeError."""

    # The provider answered; otherwise `error` says how the call ended.
    response: CachedResponse | None = None
    error: EffectError | None = None
    provider_request_id: str = ""
    # The provider's own code inside the answer, where a profile (providers.py) asks for one, for
    # example the code of the first of Shopify's userErrors. Empty: looked for, there is none;
    # None: not looked for.
    provider_code: str | None = None
    # What the provider asked for; a number counts as seconds.
    retry_after: timedelta | None = None
    # Of the operation, from 1; set by run before it asks the classifier. Above 1 an earlier
    # attempt may have had its effect.
    attempt: int = 1
    # Set by a caller that knows better than any table.
    certainty: Certainty = Certainty.CLASSIFY

    def __post_init__(self) -> None:
        check(self, "response", CachedResponse, type(None))
        check(self, "error", EffectError, type(None))
        mend_texts(self, "provider_request_id")
        check(self, "provider_code", str, type(None))
        mend_span(self, "retry_after")
        check(self, "attempt", int)
        check(self, "certainty", Certainty)

    @classmethod
    def answered(cls, response: CachedResponse, **more: Any) -> EffectResult:
        return cls(response=response, **more)

    @classmethod
    def failed(cls, code: StatusCode, message: str = "", **more: Any) -> EffectResult:
        """The call ended without an answer. The message goes into the operation's history."""
        return cls(error=EffectError(code, message), **more)

    @classmethod
    def nothing_happened(cls, code: StatusCode, message: str = "", **more: Any) -> EffectResult:
        """The caller is certain that the effect did not happen, for example: never sent."""
        more["certainty"] = Certainty.NOTHING_HAPPENED
        return cls(error=EffectError(code, message), **more)


class Disposition(enum.Enum):
    SUCCEEDED = "SUCCEEDED"  # complete, verdict SUCCEEDED: replay it
    FAILED = "FAILED"  # complete, verdict FAILED: final, the failure is the answer
    NOTHING_HAPPENED = "NOTHING_HAPPENED"  # release: another attempt may be made
    UNKNOWN = "UNKNOWN"  # mark unresolved: nobody knows


@dataclasses.dataclass(frozen=True)
class Classification:
    disposition: Disposition = Disposition.UNKNOWN
    cause: UnresolvedCause = UnresolvedCause.OTHER  # UNKNOWN
    reconcile_first: bool = False  # UNKNOWN: no further attempt under any policy

    def __post_init__(self) -> None:
        check(self, "disposition", Disposition)
        mend_enum(self, "cause", UnresolvedCause)
        check(self, "reconcile_first", bool)


Classifier = Callable[[EffectResult], Classification]

_SUCCEEDED = Classification(Disposition.SUCCEEDED)
_FAILED = Classification(Disposition.FAILED)
_NOTHING_HAPPENED = Classification(Disposition.NOTHING_HAPPENED)


def unknown(cause: UnresolvedCause, reconcile_first: bool = False) -> Classification:
    return Classification(Disposition.UNKNOWN, cause, reconcile_first)


_SERVER_ERROR = unknown(UnresolvedCause.SERVER_ERROR)
_OTHER = unknown(UnresolvedCause.OTHER)

_BY_GRPC_CODE = {
    StatusCode.OK: _SUCCEEDED,
    # Usually the caller's own doing, while the call was on its way.
    StatusCode.CANCELLED: unknown(UnresolvedCause.OWNER_CANCELLED),
    StatusCode.UNKNOWN: _SERVER_ERROR,
    StatusCode.INVALID_ARGUMENT: _FAILED,
    StatusCode.DEADLINE_EXCEEDED: unknown(UnresolvedCause.TIMEOUT),
    StatusCode.NOT_FOUND: _FAILED,
    StatusCode.ALREADY_EXISTS: _FAILED,  # on the first attempt
    StatusCode.PERMISSION_DENIED: _NOTHING_HAPPENED,
    StatusCode.RESOURCE_EXHAUSTED: _NOTHING_HAPPENED,  # with a retry_after
    StatusCode.FAILED_PRECONDITION: _FAILED,
    # A conflict while it was being worked on: rolled back, or not.
    StatusCode.ABORTED: _SERVER_ERROR,
    StatusCode.OUT_OF_RANGE: _FAILED,
    StatusCode.UNIMPLEMENTED: _FAILED,
    StatusCode.INTERNAL: _SERVER_ERROR,
    # Also what a connection says that broke after the request was sent.
    StatusCode.UNAVAILABLE: unknown(UnresolvedCause.CONNECTION_LOST),
    StatusCode.DATA_LOSS: _SERVER_ERROR,
    StatusCode.UNAUTHENTICATED: _NOTHING_HAPPENED,
}

# The first row that fits.
_BY_HTTP_STATUS = (
    (200, 299, _SUCCEEDED),
    # Send the same request elsewhere: it was not done here.
    (307, 308, _FAILED),
    # A redirect after a POST usually follows its success.
    (300, 399, _OTHER),
    (401, 401, _NOTHING_HAPPENED),
    (403, 403, _NOTHING_HAPPENED),
    # Servers find out that they have no acceptable answer after they have done the work.
    (406, 406, _SERVER_ERROR),
    (407, 407, _NOTHING_HAPPENED),
    # Also sent by proxies that waited for the server.
    (408, 408, unknown(UnresolvedCause.TIMEOUT)),
    # The same key, or an earlier attempt, may be what it conflicts with.
    (409, 409, _SERVER_ERROR),
    # Meant for another server, which this one is not.
    (421, 421, _NOTHING_HAPPENED),
    (423, 423, _SERVER_ERROR),
    # A part of the work failed; others may be done.
    (424, 424, _SERVER_ERROR),
    (425, 425, _NOTHING_HAPPENED),
    (429, 429, _NOTHING_HAPPENED),
    # What proxies note of a connection that was closed before the answer.
    (499, 499, unknown(UnresolvedCause.CONNECTION_LOST)),
    (400, 498, _FAILED),
    (504, 504, unknown(UnresolvedCause.TIMEOUT)),
    (500, 599, _SERVER_ERROR),
)

_BY_ERROR = {
    StatusCode.DEADLINE_EXCEEDED: unknown(UnresolvedCause.TIMEOUT),
    StatusCode.UNAVAILABLE: unknown(UnresolvedCause.CONNECTION_LOST),
    StatusCode.CANCELLED: unknown(UnresolvedCause.OWNER_CANCELLED),
}


def _by_grpc_code(code: int, result: EffectResult) -> Classification:
    # What exists may be what an earlier attempt made.
    if code == StatusCode.ALREADY_EXISTS and result.attempt > 1:
        return _OTHER
    # Without a time to come back it need not be a limit that was met before the work began.
    if code == StatusCode.RESOURCE_EXHAUSTED and result.retry_after is None:
        return _SERVER_ERROR
    return _BY_GRPC_CODE[StatusCode(code)] if 0 <= code <= 16 else _OTHER


def _by_http_status(status: int) -> Classification:
    for first, last, means in _BY_HTTP_STATUS:
        if first <= status <= last:
            return means
    return _OTHER


def _without_answer(result: EffectResult) -> Classification:
    return _BY_ERROR.get(result.error.code, _OTHER) if result.error else _OTHER


def by_certainty(result: EffectResult) -> Classification | None:
    """What the caller is certain of."""
    if result.certainty is Certainty.NOTHING_HAPPENED:
        return _NOTHING_HAPPENED
    return _without_answer(result) if result.certainty is Certainty.UNKNOWN else None


def _by_status(result: EffectResult) -> Classification | None:
    if result.response is None:
        return None
    if result.response.http_status is not None:
        return _by_http_status(result.response.http_status)
    if result.response.grpc_code is not None:
        return _by_grpc_code(result.response.grpc_code, result)
    return None


def classify_grpc(result: EffectResult) -> Classification:
    """By google.rpc.Code of the answer or the error (a stub's status tells no difference between
    the two); an answer without a status succeeded.

        succeeded         OK
        failed            INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE,
                          UNIMPLEMENTED; ALREADY_EXISTS on the first attempt
        nothing happened  UNAUTHENTICATED, PERMISSION_DENIED; RESOURCE_EXHAUSTED with a retry_after
                          (without one it is also what gRPC says of an answer that was too large
                          to receive: unknown)
        unknown           CANCELLED (OWNER_CANCELLED), DEADLINE_EXCEEDED (TIMEOUT), UNAVAILABLE
                          (CONNECTION_LOST), UNKNOWN, INTERNAL, ABORTED, DATA_LOSS (SERVER_ERROR),
                          any other number (OTHER)
    """
    certain = by_certainty(result) or _by_status(result)
    if certain is not None:
        return certain
    if result.response is not None:
        return _SUCCEEDED
    if result.error is None or result.error.code is StatusCode.OK:
        return _without_answer(result)
    return _by_grpc_code(result.error.code, result)


def classify_http(result: EffectResult) -> Classification:
    """By HTTP status; without an answer unknown, with the cause that the error's code has above.

        succeeded         2xx
        failed            307, 308 (not done here) and 4xx, but for
        nothing happened  401, 403, 407, 421, 425, 429
        unknown           408 and 504 (TIMEOUT); 406, 409, 423, 424 and 5xx (SERVER_ERROR); 499
                          (CONNECTION_LOST); other 3xx, as a redirect after a POST usually follows
                          its success, and any other number (OTHER)
    """
    return by_certainty(result) or _by_status(result) or _without_answer(result)
