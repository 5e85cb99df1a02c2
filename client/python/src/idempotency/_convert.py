"""Values <-> messages. What goes into a report is mended and never refused: it has happened."""

from __future__ import annotations

import datetime
import logging
from datetime import timedelta
from typing import Any, Callable

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from . import connection as c
from . import types as t
from ._proto.v1 import admin_service_pb2 as admin
from ._proto.v1 import idempotency_service_pb2 as service
from ._proto.v1 import operation_pb2 as operation
from .errors import CallError

_log = logging.getLogger("idempotency")

MAX_BODY_BYTES = 3 * 1024 * 1024
_MAX_SHORT_TEXT_BYTES = 255
_MAX_LONG_TEXT_BYTES = 1024
# What the service would drop anyhow is not sent, so that the message stays small.
_MAX_SENT_METADATA_BYTES = 64 * 1024
_MAX_PAGE = 1000
_MILLISECOND = timedelta(milliseconds=1)
# google.protobuf.Duration goes to 10,000 years.
_LONGEST_SPAN = timedelta(seconds=315_576_000_000)

# --- Texts and times ------------------------------------------------------------------------------


def mended(text: str | None, max_bytes: int) -> str:
    """Cut to whole characters; what is no UTF-8 is replaced, and what is no text left out."""
    if not isinstance(text, str):
        return ""
    data = text.encode("utf-8", "replace")
    return text if data.decode() == text and len(data) <= max_bytes else data[:max_bytes].decode("utf-8", "ignore")


def _text(field: str, text: str) -> str:
    """Names cannot be mended: another text would be another operation."""
    if not isinstance(text, str):
        raise _invalid(field, f"{field} is no text, but {type(text).__name__}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _invalid(field, f"{field} is not UTF-8; encode it and call again.") from None
    return text


def _invalid(field: str, message: str) -> CallError:
    """As the service would refuse it: it does not pass, and is not worth another try."""
    refusal = t.Refusal(t.ErrorReason.INVALID_FIELD, field)
    return CallError(t.StatusCode.INVALID_ARGUMENT, message, refusal)


def _duration(span: timedelta) -> Any:
    span = min(max(span, -_LONGEST_SPAN), _LONGEST_SPAN)
    millis = span // _MILLISECOND
    seconds, rest = divmod(abs(millis), 1000)
    sign = -1 if millis < 0 else 1
    return Duration(seconds=sign * seconds, nanos=sign * rest * 1_000_000)


def _maybe(span: timedelta | None) -> Any:
    return None if span is None else _duration(span)


def _span(message: Any, up: bool = False) -> timedelta:
    """Whole milliseconds; downwards what is relied on, upwards what is waited for."""
    nanos: int = message.seconds * 1_000_000_000 + message.nanos
    millis: int = -(-nanos // 1_000_000) if up else nanos // 1_000_000
    # Far above every limit of the service, and within what a timedelta holds.
    return min(max(millis, -(10**14)), 10**14) * _MILLISECOND


def retry_span(message: Any) -> timedelta:
    return _span(message, up=True)


def _retry_after(message: Any) -> timedelta | None:
    return retry_span(message.retry_after) if message.HasField("retry_after") else None


def _time(message: Any) -> datetime.datetime:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    try:
        return epoch + _span(message)
    except OverflowError:
        return datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)


def _maybe_time(message: Any, field: str) -> datetime.datetime | None:
    return _time(getattr(message, field)) if message.HasField(field) else None


# --- To messages ----------------------------------------------------------------------------------


def _number(value: t.ApiEnum) -> Any:
    """The stubs of generated enums name classes that do not exist when it runs."""
    return int(value)


def _id(id: t.OperationId) -> Any:
    return operation.OperationId(
        namespace=_text("id.namespace", id.namespace),
        scope=_text("id.scope", id.scope),
        key=_text("id.key", id.key),
    )


def _fingerprint(fingerprint: t.Fingerprint | None) -> Any:
    if fingerprint is None:
        return None
    algorithm = _text("fingerprint.algorithm", fingerprint.algorithm)
    return operation.Fingerprint(algorithm=algorithm, digest=fingerprint.digest)


def _owner(owner: t.Owner | None) -> Any:
    if owner is None or owner == t.Owner():
        return None
    return operation.Owner(
        worker=_text("owner.worker", owner.worker),
        operation_ref=_text("owner.operation_ref", owner.operation_ref),
        traceparent=_text("owner.traceparent", owner.traceparent),
    )


def _response(response: t.CachedResponse | None) -> Any:
    if response is None:
        return None
    out = operation.CachedResponse(
        status_message=mended(response.status_message, _MAX_LONG_TEXT_BYTES),
        content_type=mended(response.content_type, _MAX_SHORT_TEXT_BYTES),
        body_omitted=response.body_omitted,
        body_size=response.body_size,
    )
    if response.http_status is not None:
        out.http_status = response.http_status
    if response.grpc_code is not None:
        out.grpc_code = response.grpc_code
    size = 0
    for name, value in response.metadata:
        size += len(name.encode("utf-8", "replace")) + len(value)
        if size > _MAX_SENT_METADATA_BYTES:
            break
        out.metadata.add(name=mended(name, _MAX_SENT_METADATA_BYTES), value=value)
    if response.body is not None and len(response.body) > MAX_BODY_BYTES:
        out.body_omitted = True
        out.body_size = max(response.body_size, len(response.body))
    elif response.body is not None:
        out.body = response.body
    return out


def _outcome(response: t.CachedResponse | None) -> Any:
    """What has happened is recorded, also where its answer cannot be."""
    try:
        return _response(response)
    except Exception as error:
        _log.warning("an answer is recorded without its content: %s", type(error).__name__)
        return operation.CachedResponse(body_omitted=True)


def _reserve(request: c.ReserveRequest) -> Any:
    waits = request.wait_duration != timedelta(0)
    return service.ReserveRequest(
        id=_id(request.id),
        fingerprint=_fingerprint(request.fingerprint),
        attempt_id=_text("attempt_id", request.attempt_id),
        lease_duration=_maybe(request.lease_duration),
        wait_duration=_duration(request.wait_duration) if waits else None,
        owner=_owner(request.owner),
        labels={_text("labels", k): _text("labels", v) for k, v in request.labels.items()},
        operation_age=_maybe(request.operation_age),
        dispatch_later=request.dispatch_later,
        start_over=request.start_over,
    )


def _renew(request: c.RenewRequest) -> Any:
    return service.RenewRequest(
        id=_id(request.id),
        fencing_token=request.fencing_token,
        lease_duration=_maybe(request.lease_duration),
        progress=request.progress,
        dispatched=request.dispatched,
        owner=_owner(request.owner),
    )


def _complete(request: c.CompleteRequest) -> Any:
    return service.CompleteRequest(
        id=_id(request.id),
        fencing_token=request.fencing_token,
        verdict=_number(request.verdict),
        response=_outcome(request.response),
        provider_request_id=mended(request.provider_request_id, _MAX_SHORT_TEXT_BYTES),
        retention=_maybe(request.retention),
    )


def _release(request: c.ReleaseRequest) -> Any:
    return service.ReleaseRequest(
        id=_id(request.id),
        fencing_token=request.fencing_token,
        detail=mended(request.detail, _MAX_LONG_TEXT_BYTES),
    )


def _mark_unresolved(request: c.MarkUnresolvedRequest) -> Any:
    return service.MarkUnresolvedRequest(
        id=_id(request.id),
        fencing_token=request.fencing_token,
        cause=_number(request.cause),
        detail=mended(request.detail, _MAX_LONG_TEXT_BYTES),
        provider_request_id=mended(request.provider_request_id, _MAX_SHORT_TEXT_BYTES),
        retry_after=_maybe(request.retry_after),
        reconcile_first=request.reconcile_first,
    )


def _get_operation(request: c.GetOperationRequest) -> Any:
    waits = request.wait_duration != timedelta(0)
    return service.GetOperationRequest(
        id=_id(request.id),
        wait_duration=_duration(request.wait_duration) if waits else None,
        fingerprint=_fingerprint(request.fingerprint),
    )


def _resolve(request: c.ResolveRequest) -> Any:
    out = admin.ResolveOperationRequest(
        id=_id(request.id),
        actor=_text("actor", request.actor),
        reason=mended(request.reason, _MAX_LONG_TEXT_BYTES),
        provider_request_id=mended(request.provider_request_id, _MAX_SHORT_TEXT_BYTES),
        etag=_text("etag", request.etag),
    )
    if request.resolution is c.Resolution.COMPLETED:
        out.completed.verdict = _number(request.verdict)
        if request.response is not None:
            out.completed.response.CopyFrom(_outcome(request.response))
    elif request.resolution is c.Resolution.NOT_EXECUTED:
        out.not_executed.SetInParent()
    else:
        out.abandoned.SetInParent()
    return out


def _list(request: c.ListOperationsRequest) -> Any:
    return admin.ListOperationsRequest(
        namespace=_text("namespace", request.namespace),
        scope=_text("scope", request.scope),
        key_prefix=_text("key_prefix", request.key_prefix),
        operation_ref=_text("operation_ref", request.operation_ref),
        states=[_number(state) for state in request.states],
        min_age=_duration(request.min_age) if request.min_age else None,
        page_size=min(request.page_size, _MAX_PAGE),
        page_token=_text("page_token", request.page_token),
    )


_COMMAND_FIELDS: dict[type, str] = {
    c.ReserveRequest: "reserve",
    c.RenewRequest: "renew",
    c.CompleteRequest: "complete",
    c.ReleaseRequest: "release",
    c.MarkUnresolvedRequest: "mark_unresolved",
    c.GetOperationRequest: "get_operation",
}


def _batch(request: c.BatchRequest) -> Any:
    out = service.BatchRequest()
    for command in request.commands:
        field = getattr(out.commands.add(), _COMMAND_FIELDS[type(command)])
        field.CopyFrom(to_message(command))
    return out


_TO: dict[type, Callable[[Any], Any]] = {
    c.ReserveRequest: _reserve,
    c.RenewRequest: _renew,
    c.CompleteRequest: _complete,
    c.ReleaseRequest: _release,
    c.MarkUnresolvedRequest: _mark_unresolved,
    c.GetOperationRequest: _get_operation,
    c.ResolveRequest: _resolve,
    c.ListOperationsRequest: _list,
    c.BatchRequest: _batch,
}


def to_message(request: c.Request[Any]) -> Any:
    """CallError where it cannot be made: a refusal, as making it again would fail again."""
    try:
        return _TO[type(request)](request)
    except CallError:
        raise
    except Exception as error:
        name = type(request).__name__
        raise _invalid("", f"{name} cannot be sent: {type(error).__name__}.") from error


# --- From messages --------------------------------------------------------------------------------


def _cached(message: Any) -> t.CachedResponse:
    return t.CachedResponse(
        http_status=message.http_status if message.HasField("http_status") else None,
        grpc_code=message.grpc_code if message.HasField("grpc_code") else None,
        status_message=message.status_message,
        content_type=message.content_type,
        metadata=tuple((entry.name, entry.value) for entry in message.metadata),
        body=message.body if message.HasField("body") else None,
        body_omitted=message.body_omitted,
        body_size=message.body_size,
        metadata_omitted=message.metadata_omitted,
    )


def _lease(message: Any) -> t.Lease:
    return t.Lease(
        fencing_token=message.fencing_token,
        expire_time=_time(message.expire_time),
        remaining=_span(message.remaining),
        attempt=message.attempt,
        progress=message.progress if message.HasField("progress") else None,
    )


def _operation(message: Any) -> t.Operation:
    fingerprint = None
    if message.HasField("fingerprint"):
        fingerprint = t.Fingerprint(message.fingerprint.algorithm, message.fingerprint.digest)
    owner = message.owner
    return t.Operation(
        id=t.OperationId(message.id.namespace, message.id.scope, message.id.key),
        state=t.OperationState.of(message.state),
        fingerprint=fingerprint,
        owner=t.Owner(owner.worker, owner.operation_ref, owner.traceparent),
        labels=dict(message.labels),
        attempt=message.attempt,
        dispatched=message.dispatched,
        create_time=_maybe_time(message, "create_time"),
        update_time=_maybe_time(message, "update_time"),
        lease_expire_time=_maybe_time(message, "lease_expire_time"),
        complete_time=_maybe_time(message, "complete_time"),
        next_attempt_time=_maybe_time(message, "next_attempt_time"),
        protection_expire_time=_maybe_time(message, "protection_expire_time"),
        verdict=t.Verdict.of(message.verdict),
        unresolved_cause=t.UnresolvedCause.of(message.unresolved_cause),
        provider_request_id=message.provider_request_id,
        response=_cached(message.response) if message.HasField("response") else None,
        etag=message.etag,
    )


def _reserved(message: Any) -> c.ReserveResponse:
    return c.ReserveResponse(
        outcome=t.ReserveOutcome.of(message.outcome),
        next_step=t.NextStep.of(message.next_step),
        lease=_lease(message.lease) if message.HasField("lease") else None,
        operation=_operation(message.operation) if message.HasField("operation") else None,
        retry_after=_retry_after(message),
        detail=message.detail,
    )


def _marked(message: Any) -> c.MarkUnresolvedResponse:
    step = t.NextStep.of(message.next_step)
    return c.MarkUnresolvedResponse(_operation(message.operation), step, _retry_after(message))


def _got(message: Any) -> c.GetOperationResponse:
    step = t.NextStep.of(message.next_step)
    return c.GetOperationResponse(_operation(message.operation), step, _retry_after(message))


def _listed(message: Any) -> c.ListOperationsResponse:
    operations = tuple(map(_operation, message.operations))
    return c.ListOperationsResponse(operations, message.next_page_token)


def _batched(message: Any) -> c.BatchResponse:
    return c.BatchResponse(tuple(map(_result, message.results)))


def _result(message: Any) -> object:
    kind = message.WhichOneof("result")
    if kind == "error":
        return failure_of(message.error)
    if kind is None:
        return CallError(t.StatusCode.INTERNAL, "a command without a result; update the client.")
    return from_message(getattr(message, kind))


def failure_of(error: Any) -> CallError:
    reason = t.ErrorReason.of(error.reason)
    refusal = None
    if reason is not t.ErrorReason.UNSPECIFIED:
        refusal = t.Refusal(reason, error.field, _retry_after(error))
    return CallError(t.StatusCode.of(error.code), error.message, refusal)


_FROM: dict[type, Callable[[Any], object]] = {
    service.ReserveResponse: _reserved,
    service.RenewResponse: lambda message: c.RenewResponse(_lease(message.lease)),
    service.CompleteResponse: lambda message: c.CompleteResponse(
        _operation(message.operation), message.already_complete
    ),
    service.ReleaseResponse: lambda message: c.ReleaseResponse(t.OperationState.of(message.state)),
    service.MarkUnresolvedResponse: _marked,
    service.GetOperationResponse: _got,
    service.BatchResponse: _batched,
    admin.ResolveOperationResponse: lambda message: _operation(message.operation),
    admin.ListOperationsResponse: _listed,
}


def from_message(message: Any) -> Any:
    return _FROM[type(message)](message)
