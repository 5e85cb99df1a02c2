from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from idempotency._proto.v1 import operation_pb2 as _operation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
ERROR_REASON_ACCESS_DENIED: ErrorReason
ERROR_REASON_ALREADY_COMPLETE: ErrorReason
ERROR_REASON_ATTEMPT_FINISHED: ErrorReason
ERROR_REASON_ETAG_MISMATCH: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_LEASE_LAPSED: ErrorReason
ERROR_REASON_LEASE_LIVE: ErrorReason
ERROR_REASON_NAMESPACE_NOT_FOUND: ErrorReason
ERROR_REASON_NOT_SETTLED: ErrorReason
ERROR_REASON_OPERATION_NOT_FOUND: ErrorReason
ERROR_REASON_OUTCOME_UNKNOWN: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_QUOTA_EXCEEDED: ErrorReason
ERROR_REASON_RECORD_UNREADABLE: ErrorReason
ERROR_REASON_STALE_FENCING_TOKEN: ErrorReason
ERROR_REASON_STORE_FULL: ErrorReason
ERROR_REASON_STORE_UNAVAILABLE: ErrorReason
ERROR_REASON_UNKNOWN_FENCING_TOKEN: ErrorReason
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_WRONG_STATE: ErrorReason
KEY_CHECK_OFF: KeyCheck
KEY_CHECK_REFUSE: KeyCheck
KEY_CHECK_UNSPECIFIED: KeyCheck
KEY_CHECK_WARN: KeyCheck
NEXT_STEP_LOOK_UP_ANSWER: NextStep
NEXT_STEP_PROCEED: NextStep
NEXT_STEP_PROCEED_UNLESS_STARTED: NextStep
NEXT_STEP_RECONCILE_FIRST: NextStep
NEXT_STEP_RESERVE_AGAIN: NextStep
NEXT_STEP_SETTLE_OTHER_FIRST: NextStep
NEXT_STEP_STOP: NextStep
NEXT_STEP_UNSPECIFIED: NextStep
NEXT_STEP_USE_OWN_KEY: NextStep
NEXT_STEP_USE_RESPONSE: NextStep
RESERVE_OUTCOME_ACQUIRED: ReserveOutcome
RESERVE_OUTCOME_ALREADY_HELD: ReserveOutcome
RESERVE_OUTCOME_COMPLETED: ReserveOutcome
RESERVE_OUTCOME_EXPIRED: ReserveOutcome
RESERVE_OUTCOME_FINGERPRINT_MISMATCH: ReserveOutcome
RESERVE_OUTCOME_IN_PROGRESS: ReserveOutcome
RESERVE_OUTCOME_TOO_OLD: ReserveOutcome
RESERVE_OUTCOME_UNRESOLVED: ReserveOutcome
RESERVE_OUTCOME_UNSPECIFIED: ReserveOutcome
UNKNOWN_OUTCOME_POLICY_RECONCILE_FIRST: UnknownOutcomePolicy
UNKNOWN_OUTCOME_POLICY_RERUN: UnknownOutcomePolicy
UNKNOWN_OUTCOME_POLICY_RETRY_SAME_KEY: UnknownOutcomePolicy
UNKNOWN_OUTCOME_POLICY_UNSPECIFIED: UnknownOutcomePolicy

class BatchRequest(_message.Message):
    __slots__ = ["commands"]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class BatchResponse(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ["complete", "get_operation", "mark_unresolved", "release", "renew", "reserve", "tag"]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    GET_OPERATION_FIELD_NUMBER: _ClassVar[int]
    MARK_UNRESOLVED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    complete: CompleteRequest
    get_operation: GetOperationRequest
    mark_unresolved: MarkUnresolvedRequest
    release: ReleaseRequest
    renew: RenewRequest
    reserve: ReserveRequest
    tag: int
    def __init__(self, tag: _Optional[int] = ..., reserve: _Optional[_Union[ReserveRequest, _Mapping]] = ..., renew: _Optional[_Union[RenewRequest, _Mapping]] = ..., complete: _Optional[_Union[CompleteRequest, _Mapping]] = ..., release: _Optional[_Union[ReleaseRequest, _Mapping]] = ..., mark_unresolved: _Optional[_Union[MarkUnresolvedRequest, _Mapping]] = ..., get_operation: _Optional[_Union[GetOperationRequest, _Mapping]] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ["fencing_token", "id", "provider_request_id", "response", "retention", "verdict"]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    fencing_token: int
    id: _operation_pb2.OperationId
    provider_request_id: str
    response: _operation_pb2.CachedResponse
    retention: _duration_pb2.Duration
    verdict: _operation_pb2.Verdict
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., fencing_token: _Optional[int] = ..., verdict: _Optional[_Union[_operation_pb2.Verdict, str]] = ..., response: _Optional[_Union[_operation_pb2.CachedResponse, _Mapping]] = ..., provider_request_id: _Optional[str] = ..., retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ["already_complete", "operation"]
    ALREADY_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    already_complete: bool
    operation: _operation_pb2.Operation
    def __init__(self, operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ..., already_complete: bool = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ["code", "field", "message", "reason", "retry_after"]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    code: int
    field: str
    message: str
    reason: ErrorReason
    retry_after: _duration_pb2.Duration
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[_Union[ErrorReason, str]] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetNamespaceRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetNamespaceResponse(_message.Message):
    __slots__ = ["namespace"]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ...) -> None: ...

class GetOperationRequest(_message.Message):
    __slots__ = ["fingerprint", "id", "wait_duration"]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_DURATION_FIELD_NUMBER: _ClassVar[int]
    fingerprint: _operation_pb2.Fingerprint
    id: _operation_pb2.OperationId
    wait_duration: _duration_pb2.Duration
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., wait_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., fingerprint: _Optional[_Union[_operation_pb2.Fingerprint, _Mapping]] = ...) -> None: ...

class GetOperationResponse(_message.Message):
    __slots__ = ["next_step", "operation", "retry_after", "server_time"]
    NEXT_STEP_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    next_step: NextStep
    operation: _operation_pb2.Operation
    retry_after: _duration_pb2.Duration
    server_time: _timestamp_pb2.Timestamp
    def __init__(self, operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ..., server_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., next_step: _Optional[_Union[NextStep, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class MarkUnresolvedRequest(_message.Message):
    __slots__ = ["cause", "detail", "fencing_token", "id", "provider_request_id", "reconcile_first", "retry_after"]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RECONCILE_FIRST_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    cause: _operation_pb2.UnresolvedCause
    detail: str
    fencing_token: int
    id: _operation_pb2.OperationId
    provider_request_id: str
    reconcile_first: bool
    retry_after: _duration_pb2.Duration
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., fencing_token: _Optional[int] = ..., cause: _Optional[_Union[_operation_pb2.UnresolvedCause, str]] = ..., detail: _Optional[str] = ..., provider_request_id: _Optional[str] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., reconcile_first: bool = ...) -> None: ...

class MarkUnresolvedResponse(_message.Message):
    __slots__ = ["next_step", "operation", "retry_after"]
    NEXT_STEP_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    next_step: NextStep
    operation: _operation_pb2.Operation
    retry_after: _duration_pb2.Duration
    def __init__(self, operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ..., next_step: _Optional[_Union[NextStep, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Namespace(_message.Message):
    __slots__ = ["default_lease_duration", "description", "expired_memory", "fingerprint_optional", "initial_backoff", "key_check", "max_attempts", "max_backoff", "max_hold_duration", "max_key_bytes", "max_lease_duration", "max_response_bytes", "max_retention", "max_wait_duration", "name", "protection_window", "provider", "retention", "scope_optional", "settle_duration", "unknown_outcome"]
    DEFAULT_LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_OPTIONAL_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    KEY_CHECK_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_DURATION_FIELD_NUMBER: _ClassVar[int]
    MAX_KEY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    MAX_RESPONSE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_RETENTION_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_DURATION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTECTION_WINDOW_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    SCOPE_OPTIONAL_FIELD_NUMBER: _ClassVar[int]
    SETTLE_DURATION_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    default_lease_duration: _duration_pb2.Duration
    description: str
    expired_memory: _duration_pb2.Duration
    fingerprint_optional: bool
    initial_backoff: _duration_pb2.Duration
    key_check: KeyCheck
    max_attempts: int
    max_backoff: _duration_pb2.Duration
    max_hold_duration: _duration_pb2.Duration
    max_key_bytes: int
    max_lease_duration: _duration_pb2.Duration
    max_response_bytes: int
    max_retention: _duration_pb2.Duration
    max_wait_duration: _duration_pb2.Duration
    name: str
    protection_window: _duration_pb2.Duration
    provider: ProviderContract
    retention: _duration_pb2.Duration
    scope_optional: bool
    settle_duration: _duration_pb2.Duration
    unknown_outcome: UnknownOutcomePolicy
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., scope_optional: bool = ..., fingerprint_optional: bool = ..., default_lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_hold_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_wait_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., expired_memory: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., unknown_outcome: _Optional[_Union[UnknownOutcomePolicy, str]] = ..., protection_window: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_attempts: _Optional[int] = ..., initial_backoff: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_backoff: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., settle_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_key_bytes: _Optional[int] = ..., max_response_bytes: _Optional[int] = ..., key_check: _Optional[_Union[KeyCheck, str]] = ..., provider: _Optional[_Union[ProviderContract, _Mapping]] = ...) -> None: ...

class PipelineRequest(_message.Message):
    __slots__ = ["commands"]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class PipelineResponse(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class ProviderContract(_message.Message):
    __slots__ = ["account_scope", "api_version", "endpoints", "key_location", "key_max_bytes", "name", "on_concurrent", "on_expiry", "on_mismatch", "source", "verified_date"]
    ACCOUNT_SCOPE_FIELD_NUMBER: _ClassVar[int]
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    KEY_LOCATION_FIELD_NUMBER: _ClassVar[int]
    KEY_MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ON_CONCURRENT_FIELD_NUMBER: _ClassVar[int]
    ON_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    ON_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_DATE_FIELD_NUMBER: _ClassVar[int]
    account_scope: str
    api_version: str
    endpoints: _containers.RepeatedScalarFieldContainer[str]
    key_location: str
    key_max_bytes: int
    name: str
    on_concurrent: str
    on_expiry: str
    on_mismatch: str
    source: str
    verified_date: str
    def __init__(self, name: _Optional[str] = ..., api_version: _Optional[str] = ..., endpoints: _Optional[_Iterable[str]] = ..., account_scope: _Optional[str] = ..., key_location: _Optional[str] = ..., key_max_bytes: _Optional[int] = ..., on_mismatch: _Optional[str] = ..., on_concurrent: _Optional[str] = ..., on_expiry: _Optional[str] = ..., source: _Optional[str] = ..., verified_date: _Optional[str] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ["detail", "fencing_token", "id"]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    detail: str
    fencing_token: int
    id: _operation_pb2.OperationId
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., fencing_token: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ["state"]
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _operation_pb2.OperationState
    def __init__(self, state: _Optional[_Union[_operation_pb2.OperationState, str]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ["dispatched", "fencing_token", "id", "lease_duration", "owner", "progress"]
    DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    dispatched: bool
    fencing_token: int
    id: _operation_pb2.OperationId
    lease_duration: _duration_pb2.Duration
    owner: _operation_pb2.Owner
    progress: bytes
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., fencing_token: _Optional[int] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., progress: _Optional[bytes] = ..., dispatched: bool = ..., owner: _Optional[_Union[_operation_pb2.Owner, _Mapping]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ["lease", "server_time"]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    lease: _operation_pb2.Lease
    server_time: _timestamp_pb2.Timestamp
    def __init__(self, lease: _Optional[_Union[_operation_pb2.Lease, _Mapping]] = ..., server_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ["attempt_id", "dispatch_later", "fingerprint", "id", "labels", "lease_duration", "operation_age", "owner", "start_over", "wait_duration"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_LATER_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    OPERATION_AGE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    START_OVER_FIELD_NUMBER: _ClassVar[int]
    WAIT_DURATION_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    dispatch_later: bool
    fingerprint: _operation_pb2.Fingerprint
    id: _operation_pb2.OperationId
    labels: _containers.ScalarMap[str, str]
    lease_duration: _duration_pb2.Duration
    operation_age: _duration_pb2.Duration
    owner: _operation_pb2.Owner
    start_over: bool
    wait_duration: _duration_pb2.Duration
    def __init__(self, id: _Optional[_Union[_operation_pb2.OperationId, _Mapping]] = ..., fingerprint: _Optional[_Union[_operation_pb2.Fingerprint, _Mapping]] = ..., attempt_id: _Optional[str] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., wait_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., owner: _Optional[_Union[_operation_pb2.Owner, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., operation_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., dispatch_later: bool = ..., start_over: bool = ...) -> None: ...

class ReserveResponse(_message.Message):
    __slots__ = ["detail", "lease", "next_step", "operation", "outcome", "retry_after", "server_time"]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    NEXT_STEP_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_FIELD_NUMBER: _ClassVar[int]
    detail: str
    lease: _operation_pb2.Lease
    next_step: NextStep
    operation: _operation_pb2.Operation
    outcome: ReserveOutcome
    retry_after: _duration_pb2.Duration
    server_time: _timestamp_pb2.Timestamp
    def __init__(self, outcome: _Optional[_Union[ReserveOutcome, str]] = ..., next_step: _Optional[_Union[NextStep, str]] = ..., lease: _Optional[_Union[_operation_pb2.Lease, _Mapping]] = ..., operation: _Optional[_Union[_operation_pb2.Operation, _Mapping]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., server_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., detail: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ["complete", "error", "get_operation", "mark_unresolved", "release", "renew", "reserve", "tag"]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GET_OPERATION_FIELD_NUMBER: _ClassVar[int]
    MARK_UNRESOLVED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    complete: CompleteResponse
    error: Error
    get_operation: GetOperationResponse
    mark_unresolved: MarkUnresolvedResponse
    release: ReleaseResponse
    renew: RenewResponse
    reserve: ReserveResponse
    tag: int
    def __init__(self, tag: _Optional[int] = ..., reserve: _Optional[_Union[ReserveResponse, _Mapping]] = ..., renew: _Optional[_Union[RenewResponse, _Mapping]] = ..., complete: _Optional[_Union[CompleteResponse, _Mapping]] = ..., release: _Optional[_Union[ReleaseResponse, _Mapping]] = ..., mark_unresolved: _Optional[_Union[MarkUnresolvedResponse, _Mapping]] = ..., get_operation: _Optional[_Union[GetOperationResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class ReserveOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class NextStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class UnknownOutcomePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class KeyCheck(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
