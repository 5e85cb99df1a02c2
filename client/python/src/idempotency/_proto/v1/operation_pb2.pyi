from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
EVENT_KIND_ACQUIRED: EventKind
EVENT_KIND_COMPLETED: EventKind
EVENT_KIND_DISPATCHED: EventKind
EVENT_KIND_LATE_COMPLETION: EventKind
EVENT_KIND_LEASE_LAPSED: EventKind
EVENT_KIND_MARKED_UNRESOLVED: EventKind
EVENT_KIND_RELEASED: EventKind
EVENT_KIND_RESOLVED: EventKind
EVENT_KIND_STARTED_OVER: EventKind
EVENT_KIND_UNSPECIFIED: EventKind
OPERATION_STATE_COMPLETE: OperationState
OPERATION_STATE_EXPIRED: OperationState
OPERATION_STATE_FREED: OperationState
OPERATION_STATE_PENDING: OperationState
OPERATION_STATE_UNRESOLVED: OperationState
OPERATION_STATE_UNSPECIFIED: OperationState
UNRESOLVED_CAUSE_CONNECTION_LOST: UnresolvedCause
UNRESOLVED_CAUSE_LEASE_LAPSED: UnresolvedCause
UNRESOLVED_CAUSE_OTHER: UnresolvedCause
UNRESOLVED_CAUSE_OWNER_CANCELLED: UnresolvedCause
UNRESOLVED_CAUSE_SERVER_ERROR: UnresolvedCause
UNRESOLVED_CAUSE_TIMEOUT: UnresolvedCause
UNRESOLVED_CAUSE_UNSPECIFIED: UnresolvedCause
VERDICT_ABANDONED: Verdict
VERDICT_FAILED: Verdict
VERDICT_SUCCEEDED: Verdict
VERDICT_UNSPECIFIED: Verdict

class CachedResponse(_message.Message):
    __slots__ = ["body", "body_omitted", "body_size", "content_type", "grpc_code", "http_status", "metadata", "metadata_omitted", "status_message"]
    BODY_FIELD_NUMBER: _ClassVar[int]
    BODY_OMITTED_FIELD_NUMBER: _ClassVar[int]
    BODY_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    GRPC_CODE_FIELD_NUMBER: _ClassVar[int]
    HTTP_STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    METADATA_OMITTED_FIELD_NUMBER: _ClassVar[int]
    STATUS_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    body_omitted: bool
    body_size: int
    content_type: str
    grpc_code: int
    http_status: int
    metadata: _containers.RepeatedCompositeFieldContainer[MetadataEntry]
    metadata_omitted: bool
    status_message: str
    def __init__(self, http_status: _Optional[int] = ..., grpc_code: _Optional[int] = ..., status_message: _Optional[str] = ..., content_type: _Optional[str] = ..., metadata: _Optional[_Iterable[_Union[MetadataEntry, _Mapping]]] = ..., body: _Optional[bytes] = ..., body_omitted: bool = ..., body_size: _Optional[int] = ..., metadata_omitted: bool = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ["actor", "attempt", "detail", "kind", "provider_request_id", "time"]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    actor: str
    attempt: int
    detail: str
    kind: EventKind
    provider_request_id: str
    time: _timestamp_pb2.Timestamp
    def __init__(self, kind: _Optional[_Union[EventKind, str]] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., actor: _Optional[str] = ..., detail: _Optional[str] = ..., provider_request_id: _Optional[str] = ...) -> None: ...

class Fingerprint(_message.Message):
    __slots__ = ["algorithm", "digest"]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    algorithm: str
    digest: bytes
    def __init__(self, algorithm: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ["attempt", "expire_time", "fencing_token", "progress", "remaining"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    expire_time: _timestamp_pb2.Timestamp
    fencing_token: int
    progress: bytes
    remaining: _duration_pb2.Duration
    def __init__(self, fencing_token: _Optional[int] = ..., expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., attempt: _Optional[int] = ..., progress: _Optional[bytes] = ...) -> None: ...

class MetadataEntry(_message.Message):
    __slots__ = ["name", "value"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ["attempt", "complete_time", "create_time", "dispatched", "etag", "fingerprint", "forget_time", "history", "id", "labels", "lease_expire_time", "next_attempt_time", "owner", "protection_expire_time", "provider_request_id", "response", "response_expire_time", "state", "unresolved_cause", "update_time", "verdict"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    FORGET_TIME_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_ATTEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PROTECTION_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    UNRESOLVED_CAUSE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    complete_time: _timestamp_pb2.Timestamp
    create_time: _timestamp_pb2.Timestamp
    dispatched: bool
    etag: str
    fingerprint: Fingerprint
    forget_time: _timestamp_pb2.Timestamp
    history: _containers.RepeatedCompositeFieldContainer[Event]
    id: OperationId
    labels: _containers.ScalarMap[str, str]
    lease_expire_time: _timestamp_pb2.Timestamp
    next_attempt_time: _timestamp_pb2.Timestamp
    owner: Owner
    protection_expire_time: _timestamp_pb2.Timestamp
    provider_request_id: str
    response: CachedResponse
    response_expire_time: _timestamp_pb2.Timestamp
    state: OperationState
    unresolved_cause: UnresolvedCause
    update_time: _timestamp_pb2.Timestamp
    verdict: Verdict
    def __init__(self, id: _Optional[_Union[OperationId, _Mapping]] = ..., state: _Optional[_Union[OperationState, str]] = ..., fingerprint: _Optional[_Union[Fingerprint, _Mapping]] = ..., owner: _Optional[_Union[Owner, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., attempt: _Optional[int] = ..., dispatched: bool = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lease_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., complete_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., response_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., forget_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., protection_expire_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., next_attempt_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., unresolved_cause: _Optional[_Union[UnresolvedCause, str]] = ..., provider_request_id: _Optional[str] = ..., response: _Optional[_Union[CachedResponse, _Mapping]] = ..., history: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., etag: _Optional[str] = ...) -> None: ...

class OperationId(_message.Message):
    __slots__ = ["key", "namespace", "scope"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    key: str
    namespace: str
    scope: str
    def __init__(self, namespace: _Optional[str] = ..., scope: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class Owner(_message.Message):
    __slots__ = ["operation_ref", "traceparent", "worker"]
    OPERATION_REF_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    operation_ref: str
    traceparent: str
    worker: str
    def __init__(self, worker: _Optional[str] = ..., operation_ref: _Optional[str] = ..., traceparent: _Optional[str] = ...) -> None: ...

class OperationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class UnresolvedCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
