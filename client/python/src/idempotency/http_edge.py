"""The HTTP side of a service that receives keys: from the Idempotency-Key field to the answer, as
functions for any framework. The words are those of
draft-ietf-httpapi-idempotency-key-header-07.

    field = parse_key_field(request.headers.getall("Idempotency-Key"))
    if field.problem is not None:
        return send(answer_key_problem(field.problem))
    result = client.run(RunRequest(OperationId("orders", account, field.key), ...), handler, options)
    return send(answer_run(result))

Whoever asks, not the header, decides the scope: take it from the authenticated caller.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
from datetime import timedelta
from typing import Iterable

from .connection import ReserveResponse
from .errors import CallError
from .run import RunResult, StopReason
from .types import (
    CachedResponse,
    ErrorReason,
    NextStep,
    Refusal,
    ReserveOutcome,
    Verdict,
)

KEY_FIELD = "Idempotency-Key"
# "true" on every replayed answer, and on no other.
REPLAYED_FIELD = "Idempotency-Replayed"

# --- The field ------------------------------------------------------------------------------------


class KeyProblem(enum.Enum):
    MISSING = "MISSING"  # no such field, or an empty key
    REPEATED = "REPEATED"  # more than one field line, or more than one value in it
    MALFORMED = "MALFORMED"  # neither a structured string nor plain
    TOO_LONG = "TOO_LONG"


@dataclasses.dataclass(frozen=True)
class KeyField:
    key: str = dataclasses.field(default="", repr=False)
    # None: there is a key.
    problem: KeyProblem | None = None


_STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*"'
_BARE_ITEM = "|".join(
    (
        _STRING,
        r"\?[01]",
        r":[A-Za-z0-9+/=]*:",
        r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*",
        r"-?[0-9]{1,12}\.[0-9]{1,3}",
        r"-?[0-9]{1,15}(?![0-9.])",
    )
)
_STRUCTURED = re.compile(
    rf"(?P<string>{_STRING})(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:{_BARE_ITEM}))?)*(?P<rest>.*)", re.DOTALL
)
_RAW = re.compile(r"[!#-+\--:<-\[\]-~]*")


def parse_key_field(
    values: Iterable[str], *, max_bytes: int = 255, allow_raw: bool = True
) -> KeyField:
    """values: of all field lines of that name, in any order; white space around them is ignored.

        structured   a String of RFC 9651 (8941): "8e03978e" with \\" and \\\\ as the only escapes.
                     Parameters behind it are checked and ignored.
        raw          the characters 0x21-0x7E but for " \\ , and ; as they are.

    Both name the same key where their characters are the same: "abc" is abc."""
    lines = list(values)
    if len(lines) > 1:
        return KeyField(problem=KeyProblem.REPEATED)
    value = lines[0].strip(" \t") if lines else ""
    if not value:
        return KeyField(problem=KeyProblem.MISSING)
    if value[0] == '"':
        field = _structured(value)
    else:
        field = _raw(value) if allow_raw else KeyField(problem=KeyProblem.MALFORMED)
    if field.problem is not None:
        return field
    if not field.key:
        return KeyField(problem=KeyProblem.MISSING)
    return KeyField(problem=KeyProblem.TOO_LONG) if len(field.key) > max_bytes else field


def _structured(value: str) -> KeyField:
    match = _STRUCTURED.fullmatch(value)
    if match is None:
        return KeyField(problem=KeyProblem.MALFORMED)
    if match["rest"]:
        # Field lines that were joined on the way look like a list.
        repeated = match["rest"].startswith(",")
        return KeyField(problem=KeyProblem.REPEATED if repeated else KeyProblem.MALFORMED)
    return KeyField(re.sub(r"\\(.)", r"\1", match["string"][1:-1]))


def _raw(value: str) -> KeyField:
    if "," in value:
        return KeyField(problem=KeyProblem.REPEATED)
    plain = _RAW.fullmatch(value) is not None
    return KeyField(value) if plain else KeyField(problem=KeyProblem.MALFORMED)


# --- Problem documents ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class HttpAnswer:
    """What to send. Names and values are fit for an HTTP message: no line breaks, no framing and no
    hop-by-hop fields, which are the server's."""

    status: int
    headers: tuple[tuple[str, bytes], ...] = dataclasses.field(default=(), repr=False)
    body: bytes | None = dataclasses.field(default=None, repr=False)


class _RetryAfter(enum.Enum):
    NEVER = 0
    IF_KNOWN = 1
    ALWAYS = 2


class _Problem(enum.Enum):
    """status, Retry-After, name, title, detail."""

    KEY_MISSING = (400, _RetryAfter.NEVER, "key-missing", "Idempotency-Key is missing",
        "Send one key for each operation in the Idempotency-Key field, and the same one with every "
        "retry.")  # fmt: skip
    KEY_INVALID = (400, _RetryAfter.NEVER, "key-invalid", "Idempotency-Key is not valid",
        "Send one key in the Idempotency-Key field, as a string in quotes or as plain characters, "
        "within the length that is allowed.")  # fmt: skip
    IN_PROGRESS = (409, _RetryAfter.ALWAYS, "in-progress",
        "A request with this Idempotency-Key is in progress",
        "Send the same request with the same key again after the time in Retry-After.")  # fmt: skip
    KEY_REUSED = (422, _RetryAfter.NEVER, "key-reused",
        "Idempotency-Key was used for another request",
        "Send the request that the key was first used for, or a key of its own for this one.")  # fmt: skip
    UNRESOLVED = (409, _RetryAfter.IF_KNOWN, "unresolved",
        "The outcome of this operation is not known",
        "It may have happened. Do not send it with another key; ask what became of it, or send the "
        "same request with the same key later.")  # fmt: skip
    ANSWER_GONE = (409, _RetryAfter.NEVER, "answer-gone",
        "This operation has ended, and its answer is no longer kept",
        "Do not send it with another key; look up what it did.")  # fmt: skip
    CLOSED = (409, _RetryAfter.NEVER, "closed",
        "This operation was closed without a known outcome",
        "It will not be attempted again under this key.")  # fmt: skip
    TOO_OLD = (409, _RetryAfter.NEVER, "too-old", "Nothing is known of an operation this old",
        "Look up whether it happened before sending it anew.")  # fmt: skip
    FAILED = (409, _RetryAfter.NEVER, "failed", "This operation has failed",
        "It ended without the wanted effect; a new try is a new operation with its own key.")  # fmt: skip
    NOTHING_HAPPENED = (503, _RetryAfter.ALWAYS, "nothing-happened",
        "This operation could not be done now, and had no effect",
        "Send the same request with the same key again after the time in Retry-After.")  # fmt: skip
    UNAVAILABLE = (503, _RetryAfter.ALWAYS, "unavailable",
        "This operation could not be started",
        "Send the same request with the same key again after the time in Retry-After.")  # fmt: skip
    QUOTA_EXCEEDED = (429, _RetryAfter.ALWAYS, "quota-exceeded",
        "There are too many new operations",
        "Send the same request with the same key again after the time in Retry-After.")  # fmt: skip
    FORBIDDEN = (403, _RetryAfter.NEVER, "forbidden", "This operation is not allowed",
        "Ask for access to it.")  # fmt: skip
    INTERNAL = (500, _RetryAfter.NEVER, "internal",
        "This operation could not be checked for repetition",
        "Nothing was started. Report this with the time it happened.")  # fmt: skip


# The default only names the problem, and is no address (RFC 4151); better is that of your own
# documentation.
TYPE_PREFIX = "tag:idempotencyd.dev,2026:problem/"


def _problem(
    problem: _Problem,
    type_prefix: str,
    next_step: NextStep = NextStep.UNSPECIFIED,
    retry_after: timedelta | None = None,
) -> HttpAnswer:
    status, retry, name, title, detail = problem.value
    document = {"type": type_prefix + name, "title": title, "status": status, "detail": detail}
    if next_step is not NextStep.UNSPECIFIED:
        document["next_step"] = next_step.name
    headers = [("Content-Type", b"application/problem+json"), ("Cache-Control", b"no-store")]
    told = retry is _RetryAfter.ALWAYS or (retry is _RetryAfter.IF_KNOWN and retry_after is not None)
    if told:
        # Whole seconds, rounded up, at least 1.
        span = retry_after.total_seconds() if retry_after else 0.0
        headers.append(("Retry-After", str(max(math.ceil(span), 1)).encode()))
    body = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return HttpAnswer(status, tuple(headers), body)


# --- Stored answers -------------------------------------------------------------------------------

# The HTTP status that google/rpc/code.proto gives each code, by number.
_STATUS_OF_GRPC_CODE = (200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401)

# What frames a message or belongs to one connection is for the server to write, and the marker is
# this answer's own.
_OWN_FIELDS = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-type",
        "idempotency-replayed",
        "set-cookie",
    }
)
_TOKEN = re.compile(r"[0-9A-Za-z!#$%&'*+.^_`|~-]+")
_BREAK = re.compile(rb"[\r\n\0]")


def _may_be_replayed(name: str, value: bytes) -> bool:
    # A line break would begin another field.
    fits = _TOKEN.fullmatch(name) is not None and _BREAK.search(value) is None
    return fits and name.lower() not in _OWN_FIELDS


def _status(response: CachedResponse) -> int:
    if response.http_status is not None:
        # An interim status or none at all can end no exchange.
        return response.http_status if 200 <= response.http_status <= 599 else 500
    code = response.grpc_code
    if code is not None:
        return _STATUS_OF_GRPC_CODE[code] if 0 <= code < len(_STATUS_OF_GRPC_CODE) else 500
    return 200 if response.body is not None else 204


def _stored(response: CachedResponse, replayed: bool) -> HttpAnswer:
    headers = []
    content_type = response.content_type.encode("utf-8", "replace")
    if content_type and _BREAK.search(content_type) is None:
        headers.append(("Content-Type", content_type))
    headers += [(name, value) for name, value in response.metadata if _may_be_replayed(name, value)]
    if replayed:
        headers.append((REPLAYED_FIELD, b"true"))
    return HttpAnswer(_status(response), tuple(headers), response.body)


def _ended(
    verdict: Verdict, response: CachedResponse | None, replayed: bool, type_prefix: str
) -> HttpAnswer:
    """What has ended: with an answer, without one, or with one that is not here any more."""
    if verdict is Verdict.ABANDONED:
        return _problem(_Problem.CLOSED, type_prefix, NextStep.STOP)
    if response is not None and response.body_omitted and response.body is None:
        return _problem(_Problem.ANSWER_GONE, type_prefix, NextStep.LOOK_UP_ANSWER)
    kept = response or CachedResponse()
    has_status = kept.http_status is not None or kept.grpc_code is not None
    # A failure without a status of its own must not look like a success.
    if has_status or verdict is not Verdict.FAILED:
        return _stored(kept, replayed)
    answer = _problem(_Problem.FAILED, type_prefix)
    marker = ((REPLAYED_FIELD, b"true"),) if replayed else ()
    return dataclasses.replace(answer, headers=answer.headers + marker)


# --- Answers --------------------------------------------------------------------------------------

_BY_REASON = {
    ErrorReason.ACCESS_DENIED: _Problem.FORBIDDEN,
    ErrorReason.QUOTA_EXCEEDED: _Problem.QUOTA_EXCEEDED,
    ErrorReason.OVERLOADED: _Problem.UNAVAILABLE,
    ErrorReason.STORE_FULL: _Problem.UNAVAILABLE,
    ErrorReason.STORE_UNAVAILABLE: _Problem.UNAVAILABLE,
    ErrorReason.RECORD_UNREADABLE: _Problem.UNRESOLVED,
}

_BY_STOP = {
    StopReason.IN_PROGRESS: _Problem.IN_PROGRESS,
    StopReason.UNRESOLVED: _Problem.UNRESOLVED,
    StopReason.MISMATCH: _Problem.KEY_REUSED,
    StopReason.ANSWER_GONE: _Problem.ANSWER_GONE,
    StopReason.ABANDONED: _Problem.CLOSED,
    StopReason.TOO_OLD: _Problem.TOO_OLD,
    StopReason.NOTHING_HAPPENED: _Problem.NOTHING_HAPPENED,
    StopReason.CANCELLED: _Problem.NOTHING_HAPPENED,
    StopReason.UNAVAILABLE: _Problem.UNAVAILABLE,
    StopReason.INVALID: _Problem.INTERNAL,
}


def _refuse(refusal: Refusal | None, type_prefix: str) -> HttpAnswer:
    if refusal is None:
        return _problem(_Problem.INTERNAL, type_prefix)
    problem = _BY_REASON.get(refusal.reason, _Problem.INTERNAL)
    # What the HTTP client decides: its key.
    if refusal.reason is ErrorReason.INVALID_FIELD and refusal.field == "id.key":
        problem = _Problem.KEY_INVALID
    return _problem(problem, type_prefix, retry_after=refusal.retry_after)


def answer_key_problem(problem: KeyProblem, *, type_prefix: str = TYPE_PREFIX) -> HttpAnswer:
    missing = problem is KeyProblem.MISSING
    return _problem(_Problem.KEY_MISSING if missing else _Problem.KEY_INVALID, type_prefix)


def answer_run(result: RunResult, *, type_prefix: str = TYPE_PREFIX) -> HttpAnswer:
    """The stored answer as it was, and Idempotency-Replayed: true where it is a replay. Without a
    status of its own: 200, and 204 without a body; a gRPC code becomes the HTTP status that
    google.rpc.Code names. Where there is no answer: a problem document (RFC 9457)."""
    if result.stop is None:
        return _ended(result.verdict, result.response, result.replayed, type_prefix)
    if result.stop is StopReason.REFUSED:
        return _refuse(result.refusal, type_prefix)
    return _problem(_BY_STOP[result.stop], type_prefix, result.next_step, result.retry_after)


def answer_reserve(
    response: ReserveResponse, *, type_prefix: str = TYPE_PREFIX
) -> HttpAnswer | None:
    """For callers of Reserve. None: this attempt has acquired (or still holds) the operation, and
    the handler runs."""
    step, operation = response.next_step, response.operation
    if step in (NextStep.PROCEED, NextStep.PROCEED_UNLESS_STARTED):
        return None
    if step is NextStep.USE_RESPONSE:
        verdict = operation.verdict if operation else Verdict.UNSPECIFIED
        return _ended(verdict, operation.response if operation else None, True, type_prefix)
    # A step that this version does not know is to be taken as STOP.
    problem = _Problem.CLOSED
    if step is NextStep.RESERVE_AGAIN:
        unresolved = response.outcome is ReserveOutcome.UNRESOLVED
        problem = _Problem.UNRESOLVED if unresolved else _Problem.IN_PROGRESS
    elif step is NextStep.LOOK_UP_ANSWER:
        problem = _Problem.ANSWER_GONE
    elif step is NextStep.RECONCILE_FIRST:
        too_old = response.outcome is ReserveOutcome.TOO_OLD
        problem = _Problem.TOO_OLD if too_old else _Problem.UNRESOLVED
    elif step in (NextStep.SETTLE_OTHER_FIRST, NextStep.USE_OWN_KEY):
        problem = _Problem.KEY_REUSED
    return _problem(problem, type_prefix, step, response.retry_after)


def answer_reserve_error(error: CallError, *, type_prefix: str = TYPE_PREFIX) -> HttpAnswer:
    """For a Reserve that failed: by its reason, or unavailable."""
    if error.refusal is not None:
        return _refuse(error.refusal, type_prefix)
    return _problem(_Problem.UNAVAILABLE, type_prefix)
