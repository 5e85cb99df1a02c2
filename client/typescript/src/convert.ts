/** Values of this package <-> messages of the API. */
import { create } from '@bufbuild/protobuf';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Duration, Timestamp } from '@bufbuild/protobuf/wkt';

import { CallError } from './connection.js';
import type * as api from './connection.js';
import {
  ListOperationsRequestSchema,
  ResolveOperationRequestSchema,
} from './gen/idempotency/v1/admin_service_pb.js';
import type * as admin from './gen/idempotency/v1/admin_service_pb.js';
import {
  CommandSchema,
  CompleteRequestSchema,
  GetOperationRequestSchema,
  MarkUnresolvedRequestSchema,
  ReleaseRequestSchema,
  RenewRequestSchema,
  ReserveRequestSchema,
} from './gen/idempotency/v1/idempotency_service_pb.js';
import type * as pb from './gen/idempotency/v1/idempotency_service_pb.js';
import type { CachedResponseSchema } from './gen/idempotency/v1/operation_pb.js';
import type * as op from './gen/idempotency/v1/operation_pb.js';
import { mendedResponse, mendedWait } from './mend.js';
import { errorOfResult } from './status.js';
import {
  NEXT_STEPS,
  OPERATION_STATES,
  RESERVE_OUTCOMES,
  UNRESOLVED_CAUSES,
  VERDICTS,
  nameOf,
} from './types.js';
import type { CachedResponse, Fingerprint, Lease, Operation, OperationId, Owner } from './types.js';

// What is longer is cut or left out before it is sent: a report must not be refused for its size.
const MAX_BODY_BYTES = 3 * 1024 * 1024;
const MAX_SENT_METADATA_BYTES = 64 * 1024;
const MAX_LONG_TEXT_BYTES = 1024;
const MAX_SHORT_TEXT_BYTES = 255;
const MAX_LIST_PAGE = 1000;
// google.protobuf.Duration goes to 10,000 years.
const MAX_SECONDS = 315_576_000_000;

// --- Texts ----------------------------------------------------------------------------------------

/** Well-formed, and at most so many bytes of UTF-8, cut between two characters; what is no text is
 * left out. */
export function mendedText(text: string | undefined, maxBytes: number): string {
  const whole = typeof text === 'string' ? text.toWellFormed() : '';
  if (Buffer.byteLength(whole) <= maxBytes) return whole;
  const { read } = new TextEncoder().encodeInto(whole, new Uint8Array(maxBytes));
  return whole.slice(0, read);
}

/** Refuses texts that could not be sent as they are: they would name something else. */
function checkTexts(texts: Readonly<Record<string, string | undefined>>): void {
  for (const [field, text] of Object.entries(texts)) {
    if (text === undefined || text.isWellFormed()) continue;
    throw new CallError('INVALID_ARGUMENT', `${field} holds half of a surrogate pair; mend it.`, {
      reason: 'INVALID_FIELD',
      field,
      retryAfter: undefined,
    });
  }
}

const idTexts = (id: OperationId): Record<string, string> => ({
  'id.namespace': id.namespace,
  'id.scope': id.scope,
  'id.key': id.key,
});

const ownerTexts = (owner: Partial<Owner> | undefined): Record<string, string | undefined> => ({
  'owner.worker': owner?.worker,
  'owner.operation_ref': owner?.operationRef,
  'owner.traceparent': owner?.traceparent,
});

// --- Times ----------------------------------------------------------------------------------------

type DurationInit = { seconds: bigint; nanos: number };

function duration(span: number): DurationInit {
  const seconds = Math.max(-MAX_SECONDS, Math.min(Math.trunc(span / 1000), MAX_SECONDS));
  const rest = Math.abs(seconds) === MAX_SECONDS ? 0 : Math.trunc(span % 1000);
  return { seconds: BigInt(seconds), nanos: rest * 1_000_000 };
}

/** Where undefined or zero is the default and is not sent. */
const spanOrNone = (span: number | undefined): { span: DurationInit } | undefined =>
  span === undefined || span === 0 ? undefined : { span: duration(span) };

export function millisDown(span: Duration): number {
  return Number(span.seconds) * 1000 + Math.floor(span.nanos / 1_000_000);
}

/** For waits: never shorter than what was said. */
export function millisUp(span: Duration): number {
  return Number(span.seconds) * 1000 + Math.ceil(span.nanos / 1_000_000);
}

const optionalUp = (span: Duration | undefined): number | undefined =>
  span === undefined ? undefined : millisUp(span);

function date(time: Timestamp | undefined): Date | undefined {
  if (time === undefined) return undefined;
  return new Date(Number(time.seconds) * 1000 + Math.floor(time.nanos / 1_000_000));
}

// --- To messages ----------------------------------------------------------------------------------

const numberOf = (names: readonly string[], name: string): number =>
  Math.max(names.indexOf(name), 0);

const fingerprintInit = (fingerprint: Fingerprint | undefined) =>
  fingerprint === undefined
    ? {}
    : { fingerprint: { algorithm: fingerprint.algorithm, digest: fingerprint.digest } };

function responseInit(given: CachedResponse): MessageInitShape<typeof CachedResponseSchema> {
  const response = mendedResponse(given);
  const { httpStatus, grpcCode, body } = response;
  const kept = body !== undefined && body.byteLength <= MAX_BODY_BYTES;
  const dropped = body !== undefined && !kept;
  const size = response.bodySize ?? 0n;
  const actual = BigInt(dropped ? body.byteLength : 0);
  return {
    ...(httpStatus !== undefined
      ? { status: { case: 'httpStatus', value: httpStatus } }
      : grpcCode !== undefined
        ? { status: { case: 'grpcCode', value: grpcCode } }
        : {}),
    statusMessage: mendedText(response.statusMessage, MAX_LONG_TEXT_BYTES),
    contentType: mendedText(response.contentType, MAX_SHORT_TEXT_BYTES),
    metadata: sentMetadata(response),
    ...(kept ? { body } : {}),
    bodyOmitted: dropped || (response.bodyOmitted ?? false),
    bodySize: actual > size ? actual : size,
  };
}

function sentMetadata(response: CachedResponse) {
  let bytes = 0;
  const sent: { name: string; value: Uint8Array }[] = [];
  for (const { name, value } of response.metadata ?? []) {
    bytes += Buffer.byteLength(name) + value.byteLength;
    if (bytes > MAX_SENT_METADATA_BYTES) break;
    sent.push({ name: name.toWellFormed(), value });
  }
  return sent;
}

const optionalResponse = (response: CachedResponse | undefined) =>
  response === undefined ? {} : { response: responseInit(response) };

export function reserveToProto(request: api.ReserveRequest): pb.ReserveRequest {
  const labels = Object.entries(request.labels ?? {});
  checkTexts({
    ...idTexts(request.id),
    'fingerprint.algorithm': request.fingerprint?.algorithm,
    attempt_id: request.attemptId,
    ...ownerTexts(request.owner),
    labels: labels.flat().join(' '),
  });
  const wait = spanOrNone(request.waitDuration);
  return create(ReserveRequestSchema, {
    id: { ...request.id },
    ...fingerprintInit(request.fingerprint),
    attemptId: request.attemptId,
    ...(request.leaseDuration === undefined
      ? {}
      : { leaseDuration: duration(request.leaseDuration) }),
    ...(wait === undefined ? {} : { waitDuration: wait.span }),
    ...(Object.values(request.owner ?? {}).some(Boolean) ? { owner: { ...request.owner } } : {}),
    labels: Object.fromEntries(labels),
    ...(request.operationAge === undefined ? {} : { operationAge: duration(request.operationAge) }),
    dispatchLater: request.dispatchLater ?? false,
    startOver: request.startOver ?? false,
  });
}

export function renewToProto(request: api.RenewRequest): pb.RenewRequest {
  checkTexts({ ...idTexts(request.id), ...ownerTexts(request.owner) });
  return create(RenewRequestSchema, {
    id: { ...request.id },
    fencingToken: request.fencingToken,
    ...(request.leaseDuration === undefined
      ? {}
      : { leaseDuration: duration(request.leaseDuration) }),
    ...(request.progress === undefined ? {} : { progress: request.progress }),
    dispatched: request.dispatched ?? false,
    ...(request.owner === undefined ? {} : { owner: { ...request.owner } }),
  });
}

export function completeToProto(request: api.CompleteRequest): pb.CompleteRequest {
  checkTexts(idTexts(request.id));
  return create(CompleteRequestSchema, {
    id: { ...request.id },
    fencingToken: request.fencingToken,
    verdict: numberOf(VERDICTS, request.verdict),
    ...optionalResponse(request.response),
    providerRequestId: mendedText(request.providerRequestId, MAX_SHORT_TEXT_BYTES),
    ...(request.retention === undefined ? {} : { retention: duration(request.retention) }),
  });
}

export function releaseToProto(request: api.ReleaseRequest): pb.ReleaseRequest {
  checkTexts(idTexts(request.id));
  return create(ReleaseRequestSchema, {
    id: { ...request.id },
    fencingToken: request.fencingToken,
    detail: mendedText(request.detail, MAX_LONG_TEXT_BYTES),
  });
}

export function markToProto(request: api.MarkUnresolvedRequest): pb.MarkUnresolvedRequest {
  checkTexts(idTexts(request.id));
  const retryAfter = mendedWait(request.retryAfter);
  return create(MarkUnresolvedRequestSchema, {
    id: { ...request.id },
    fencingToken: request.fencingToken,
    cause: numberOf(UNRESOLVED_CAUSES, request.cause ?? 'OTHER'),
    detail: mendedText(request.detail, MAX_LONG_TEXT_BYTES),
    providerRequestId: mendedText(request.providerRequestId, MAX_SHORT_TEXT_BYTES),
    ...(retryAfter === undefined ? {} : { retryAfter: duration(retryAfter) }),
    reconcileFirst: request.reconcileFirst ?? false,
  });
}

export function getToProto(request: api.GetOperationRequest): pb.GetOperationRequest {
  checkTexts({
    ...idTexts(request.id),
    'fingerprint.algorithm': request.fingerprint?.algorithm,
  });
  const wait = spanOrNone(request.waitDuration);
  return create(GetOperationRequestSchema, {
    id: { ...request.id },
    ...(wait === undefined ? {} : { waitDuration: wait.span }),
    ...fingerprintInit(request.fingerprint),
  });
}

type ResolutionInit = MessageInitShape<typeof ResolveOperationRequestSchema>['resolution'];

function resolutionInit(resolution: api.Resolution): NonNullable<ResolutionInit> {
  switch (resolution.kind) {
    case 'COMPLETED':
      return {
        case: 'completed',
        value: {
          verdict: numberOf(VERDICTS, resolution.verdict),
          ...optionalResponse(resolution.response),
        },
      };
    case 'NOT_EXECUTED':
      return { case: 'notExecuted', value: {} };
    case 'ABANDONED':
      return { case: 'abandoned', value: {} };
  }
}

export function resolveToProto(request: api.ResolveRequest): admin.ResolveOperationRequest {
  checkTexts({ ...idTexts(request.id), actor: request.actor, etag: request.etag });
  return create(ResolveOperationRequestSchema, {
    id: { ...request.id },
    resolution: resolutionInit(request.resolution),
    actor: request.actor,
    reason: mendedText(request.reason, MAX_LONG_TEXT_BYTES),
    providerRequestId: mendedText(request.providerRequestId, MAX_SHORT_TEXT_BYTES),
    etag: request.etag ?? '',
  });
}

export function listToProto(request: api.ListOperationsRequest): admin.ListOperationsRequest {
  checkTexts({
    namespace: request.namespace,
    scope: request.scope,
    key_prefix: request.keyPrefix,
    operation_ref: request.operationRef,
    page_token: request.pageToken,
  });
  const age = spanOrNone(request.minAge);
  return create(ListOperationsRequestSchema, {
    namespace: request.namespace,
    scope: request.scope ?? '',
    keyPrefix: request.keyPrefix ?? '',
    operationRef: request.operationRef ?? '',
    states: (request.states ?? []).map((state) => numberOf(OPERATION_STATES, state)),
    ...(age === undefined ? {} : { minAge: age.span }),
    pageSize: Math.min(request.pageSize ?? 0, MAX_LIST_PAGE),
    pageToken: request.pageToken ?? '',
  });
}

function commandOf(command: api.Command): pb.Command['command'] {
  if ('reserve' in command) return { case: 'reserve', value: reserveToProto(command.reserve) };
  if ('renew' in command) return { case: 'renew', value: renewToProto(command.renew) };
  if ('complete' in command) return { case: 'complete', value: completeToProto(command.complete) };
  if ('release' in command) return { case: 'release', value: releaseToProto(command.release) };
  if ('markUnresolved' in command) {
    return { case: 'markUnresolved', value: markToProto(command.markUnresolved) };
  }
  return { case: 'getOperation', value: getToProto(command.getOperation) };
}

export function commandToProto(command: api.Command, tag: number): pb.Command {
  return create(CommandSchema, { tag: BigInt(tag), command: commandOf(command) });
}

// --- From messages --------------------------------------------------------------------------------

function responseFromProto(response: op.CachedResponse): CachedResponse {
  return {
    httpStatus: response.status.case === 'httpStatus' ? response.status.value : undefined,
    grpcCode: response.status.case === 'grpcCode' ? response.status.value : undefined,
    statusMessage: response.statusMessage,
    contentType: response.contentType,
    metadata: response.metadata.map(({ name, value }) => ({ name, value })),
    body: response.body,
    bodyOmitted: response.bodyOmitted,
    bodySize: response.bodySize,
    metadataOmitted: response.metadataOmitted,
  };
}

function leaseFromProto(lease: op.Lease): Lease {
  return {
    fencingToken: lease.fencingToken,
    expireTime: date(lease.expireTime),
    remaining: lease.remaining === undefined ? 0 : millisDown(lease.remaining),
    attempt: lease.attempt,
    progress: lease.progress,
  };
}

const NO_ID: OperationId = { namespace: '', scope: '', key: '' };

/** An operation of which nothing is known but its id. */
export function blankOperation(id: OperationId): Operation {
  return {
    id,
    state: 'UNSPECIFIED',
    fingerprint: undefined,
    owner: { worker: '', operationRef: '', traceparent: '' },
    labels: {},
    attempt: 0,
    dispatched: false,
    createTime: undefined,
    updateTime: undefined,
    leaseExpireTime: undefined,
    completeTime: undefined,
    nextAttemptTime: undefined,
    protectionExpireTime: undefined,
    verdict: 'UNSPECIFIED',
    unresolvedCause: 'UNSPECIFIED',
    providerRequestId: '',
    response: undefined,
    etag: '',
  };
}

export function operationFromProto(operation: op.Operation | undefined): Operation {
  if (operation === undefined) return blankOperation(NO_ID);
  const { id, owner, fingerprint, response } = operation;
  return {
    id: id === undefined ? NO_ID : { namespace: id.namespace, scope: id.scope, key: id.key },
    state: nameOf(OPERATION_STATES, operation.state),
    fingerprint: fingerprint && { algorithm: fingerprint.algorithm, digest: fingerprint.digest },
    owner: {
      worker: owner?.worker ?? '',
      operationRef: owner?.operationRef ?? '',
      traceparent: owner?.traceparent ?? '',
    },
    labels: { ...operation.labels },
    attempt: operation.attempt,
    dispatched: operation.dispatched,
    createTime: date(operation.createTime),
    updateTime: date(operation.updateTime),
    leaseExpireTime: date(operation.leaseExpireTime),
    completeTime: date(operation.completeTime),
    nextAttemptTime: date(operation.nextAttemptTime),
    protectionExpireTime: date(operation.protectionExpireTime),
    verdict: nameOf(VERDICTS, operation.verdict),
    unresolvedCause: nameOf(UNRESOLVED_CAUSES, operation.unresolvedCause),
    providerRequestId: operation.providerRequestId,
    response: response && responseFromProto(response),
    etag: operation.etag,
  };
}

export function reserveFromProto(response: pb.ReserveResponse): api.ReserveResponse {
  return {
    outcome: nameOf(RESERVE_OUTCOMES, response.outcome),
    nextStep: nameOf(NEXT_STEPS, response.nextStep),
    lease: response.lease && leaseFromProto(response.lease),
    operation: response.operation && operationFromProto(response.operation),
    retryAfter: optionalUp(response.retryAfter),
    detail: response.detail,
  };
}

export function renewFromProto(response: pb.RenewResponse): api.RenewResponse {
  if (response.lease === undefined) {
    throw new CallError('INTERNAL', 'the service renewed a lease and did not show it');
  }
  return { lease: leaseFromProto(response.lease) };
}

export function completeFromProto(response: pb.CompleteResponse): api.CompleteResponse {
  return {
    operation: operationFromProto(response.operation),
    alreadyComplete: response.alreadyComplete,
  };
}

export function releaseFromProto(response: pb.ReleaseResponse): api.ReleaseResponse {
  return { state: nameOf(OPERATION_STATES, response.state) };
}

export function markFromProto(response: pb.MarkUnresolvedResponse): api.MarkUnresolvedResponse {
  return {
    operation: operationFromProto(response.operation),
    nextStep: nameOf(NEXT_STEPS, response.nextStep),
    retryAfter: optionalUp(response.retryAfter),
  };
}

export function getFromProto(response: pb.GetOperationResponse): api.GetOperationResponse {
  return {
    operation: operationFromProto(response.operation),
    nextStep: nameOf(NEXT_STEPS, response.nextStep),
    retryAfter: optionalUp(response.retryAfter),
  };
}

export function listFromProto(response: admin.ListOperationsResponse): api.ListOperationsResponse {
  return {
    operations: response.operations.map(operationFromProto),
    nextPageToken: response.nextPageToken,
  };
}

export function resultFromProto({ result }: pb.Result): api.CommandResult {
  switch (result.case) {
    case 'reserve':
      return { reserve: reserveFromProto(result.value) };
    case 'renew':
      return { renew: renewFromProto(result.value) };
    case 'complete':
      return { complete: completeFromProto(result.value) };
    case 'release':
      return { release: releaseFromProto(result.value) };
    case 'markUnresolved':
      return { markUnresolved: markFromProto(result.value) };
    case 'getOperation':
      return { getOperation: getFromProto(result.value) };
    case 'error':
      return { error: errorOfResult(result.value) };
    default:
      return { error: new CallError('INTERNAL', 'the service sent a result without content') };
  }
}
