from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from idempotency._proto.v1 import idempotency_service_pb2 as _idempotency_service_pb2
from idempotency._proto.v1 import operation_pb2 as _operation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeleteOperationRequest(_message.Message):
    __slots__ = ["actor", "etag", "force", "id", "reason"]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    actor: str
    etag: str
    force: bool
    id: _operation_pb2.OperationId
    reason: str
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., force: bool = ..., actor: _Optional[str] = ..., reason: _Optional[str] = ..., etag: _Optional[str] = ...) -> None: ...

class DeleteOperationResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class InspectOperationRequest(_message.Message):
    __slots__ = ["id"]
    ID_FIELD_NUMBER: _ClassVar[int]
    id: _operation_pb2.OperationId
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ...) -> None: ...

class InspectOperationResponse(_message.Message):
    __slots__ = ["detail", "fencing_token", "next_step", "operation", "server_time"]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NEXT_STEP_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    detail: str
    fencing_token: int
    next_step: _idempotency_service_pb2.NextStep
    operation: _operation_pb2.Operation
    server_time: _timestamp_pb2.Timestamp
    def __init__(self, operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ..., fencing_token: _Optional[int] = ..., server_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., next_step: _Optional[_Union[_idempotency_service_pb2.NextStep, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class ListNamespacesRequest(_message.Message):
    __slots__ = ["page_size", "page_token"]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListNamespacesResponse(_message.Message):
    __slots__ = ["namespaces", "next_page_token"]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[_idempotency_service_pb2.Namespace]
    next_page_token: str
    def __init__(self, namespaces: _Optional[_Iterable[_Union[_idempotency_service_pb2.Namespace, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListOperationsRequest(_message.Message):
    __slots__ = ["key_prefix", "min_age", "namespace", "operation_ref", "page_size", "page_token", "scope", "states"]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_REF_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    key_prefix: str
    min_age: _duration_pb2.Duration
    namespace: str
    operation_ref: str
    page_size: int
    page_token: str
    scope: str
    states: _containers.RepeatedScalarFieldContainer[_operation_pb2.OperationState]
    def __init__(self, namespace: _Optional[str] = ..., scope: _Optional[str] = ..., key_prefix: _Optional[str] = ..., operation_ref: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_operation_pb2.OperationState, str]]] = ..., min_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListOperationsResponse(_message.Message):
    __slots__ = ["next_page_token", "operations"]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    next_page_token: str
    operations: _containers.RepeatedCompositeFieldContainer[_operation_pb2.Operation]
    def __init__(self, operations: _Optional[_Iterable[_Union[_operation_pb2.Operation, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ResolveOperationRequest(_message.Message):
    __slots__ = ["abandoned", "actor", "completed", "etag", "id", "not_executed", "provider_request_id", "reason"]
    class Abandoned(_message.Message):
        __slots__ = []
        def __init__(self) -> None: ...
    class Completed(_message.Message):
        __slots__ = ["response", "verdict"]
        RESPONSE_FIELD_NUMBER: _ClassVar[int]
        VERDICT_FIELD_NUMBER: _ClassVar[int]
        response: _operation_pb2.CachedResponse
        verdict: _operation_pb2.Verdict
        def __init__(self, verdict: _Optional[_Union[_operation_pb2.Verdict, str]] = ..., response: _Optional[_Union[_operation_pb2.CachedResponse, _Mapping]] = ...) -> None: ...
    class NotExecuted(_message.Message):
        __slots__ = []
        def __init__(self) -> None: ...
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NOT_EXECUTED_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    abandoned: ResolveOperationRequest.Abandoned
    actor: str
    completed: ResolveOperationRequest.Completed
    etag: str
    id: _operation_pb2.OperationId
    not_executed: ResolveOperationRequest.NotExecuted
    provider_request_id: str
    reason: str
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., completed: _Optional[_Union[ResolveOperationRequest.Completed, _Mapping]] = ..., not_executed: _Optional[_Union[ResolveOperationRequest.NotExecuted, _Mapping]] = ..., abandoned: _Optional[_Union[ResolveOperationRequest.Abandoned, _Mapping]] = ..., actor: _Optional[str] = ..., reason: _Optional[str] = ..., provider_request_id: _Optional[str] = ..., etag: _Optional[str] = ...) -> None: ...

class ResolveOperationResponse(_message.Message):
    __slots__ = ["operation"]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    operation: _operation_pb2.Operation
    def __init__(self, operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ...) -> None: ...
