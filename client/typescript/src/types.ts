/**
 * The words of the service as plain values: what a caller of `Client.run` sees. No gRPC and no
 * Protocol Buffers type is needed to use them.
 *
 * Durations are numbers of milliseconds. What is 64 bits wide on the wire is a `bigint`.
 */

/** Names one logical operation. Exact; nothing is trimmed or folded. The key is made and saved by
 * the caller before the first try (keys.ts), and always the same for the operation. */
export interface OperationId {
  /** 1-64 bytes of [a-z0-9._-], starting with a letter. */
  readonly namespace: string;
  /** 1-255 bytes: the account or tenant. */
  readonly scope: string;
  /** 1-255 bytes. */
  readonly key: string;
}

/** Identifies the request that the key is used for (fingerprint.ts makes them). */
export interface Fingerprint {
  /** For example "sha256/jcs-1". */
  readonly algorithm: string;
  /** 16-64 bytes. */
  readonly digest: Uint8Array;
}

export interface Owner {
  /** Process or pod. */
  readonly worker: string;
  /** The caller's own reference. */
  readonly operationRef: string;
  /** W3C trace context. */
  readonly traceparent: string;
}

// The names below are those of idempotency.v1 without their prefix; the place in the list is the
// number on the wire. 'UNKNOWN' stands for a number that this version does not know: treat it as
// the most careful value.

export const OPERATION_STATES = [
  'UNSPECIFIED',
  'PENDING',
  'COMPLETE',
  'UNRESOLVED',
  'EXPIRED',
  'FREED',
] as const;
export type OperationState = (typeof OPERATION_STATES)[number] | 'UNKNOWN';

export const VERDICTS = ['UNSPECIFIED', 'SUCCEEDED', 'FAILED', 'ABANDONED'] as const;
export type Verdict = (typeof VERDICTS)[number] | 'UNKNOWN';

export const UNRESOLVED_CAUSES = [
  'UNSPECIFIED',
  'TIMEOUT',
  'CONNECTION_LOST',
  'SERVER_ERROR',
  'OWNER_CANCELLED',
  'OTHER',
  'LEASE_LAPSED',
] as const;
export type UnresolvedCause = (typeof UNRESOLVED_CAUSES)[number] | 'UNKNOWN';

export const RESERVE_OUTCOMES = [
  'UNSPECIFIED',
  'ACQUIRED',
  'ALREADY_HELD',
  'IN_PROGRESS',
  'COMPLETED',
  'UNRESOLVED',
  'FINGERPRINT_MISMATCH',
  'EXPIRED',
  'TOO_OLD',
] as const;
export type ReserveOutcome = (typeof RESERVE_OUTCOMES)[number] | 'UNKNOWN';

/** What a correct caller does next; 'UNSPECIFIED' and 'UNKNOWN' are to be taken as 'STOP'. */
export const NEXT_STEPS = [
  'UNSPECIFIED',
  'PROCEED',
  'PROCEED_UNLESS_STARTED',
  'RESERVE_AGAIN',
  'USE_RESPONSE',
  'LOOK_UP_ANSWER',
  'RECONCILE_FIRST',
  'SETTLE_OTHER_FIRST',
  'USE_OWN_KEY',
  'STOP',
] as const;
export type NextStep = (typeof NEXT_STEPS)[number] | 'UNKNOWN';

export const ERROR_REASONS = [
  'UNSPECIFIED',
  'INVALID_FIELD',
  'NAMESPACE_NOT_FOUND',
  'OPERATION_NOT_FOUND',
  'ACCESS_DENIED',
  'STALE_FENCING_TOKEN',
  'UNKNOWN_FENCING_TOKEN',
  'LEASE_LAPSED',
  'ALREADY_COMPLETE',
  'ATTEMPT_FINISHED',
  'OUTCOME_UNKNOWN',
  'LEASE_LIVE',
  'NOT_SETTLED',
  'WRONG_STATE',
  'ETAG_MISMATCH',
  'QUOTA_EXCEEDED',
  'OVERLOADED',
  'STORE_FULL',
  'STORE_UNAVAILABLE',
  'RECORD_UNREADABLE',
] as const;
export type ErrorReason = (typeof ERROR_REASONS)[number];

/** google.rpc.Code by number. */
export const STATUS_CODES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;
export type StatusCode = (typeof STATUS_CODES)[number];

/** The name of a number; 'UNKNOWN' for what the list does not have. */
export function nameOf<Name extends string>(
  names: readonly Name[],
  number: number,
): Name | 'UNKNOWN' {
  return names[number] ?? 'UNKNOWN';
}

/** A header of an HTTP answer, or an entry of gRPC trailing metadata. */
export interface MetadataEntry {
  readonly name: string;
  /** Any bytes. */
  readonly value: Uint8Array;
}

/** The answer of the effect, byte for byte as its owner received it (see `httpAnswer`). */
export interface CachedResponse {
  /** At most one of httpStatus and grpcCode; neither where the answer has no status. */
  readonly httpStatus?: number | undefined;
  /** A google.rpc.Code number. */
  readonly grpcCode?: number | undefined;
  readonly statusMessage?: string | undefined;
  readonly contentType?: string | undefined;
  /** In order, repeats allowed. Credential-bearing names are never stored. */
  readonly metadata?: readonly MetadataEntry[] | undefined;
  /** Absent is not empty. */
  readonly body?: Uint8Array | undefined;
  /** The body was not kept, because it was too large. */
  readonly bodyOmitted?: boolean | undefined;
  readonly bodySize?: bigint | undefined;
  /** Output only: some metadata was not kept. */
  readonly metadataOmitted?: boolean | undefined;
}

export interface Lease {
  /** Rises with every acquisition of the key; below 2^53. */
  readonly fencingToken: bigint;
  readonly expireTime: Date | undefined;
  /** Milliseconds left when the service answered; count them from before the request was sent. */
  readonly remaining: number;
  readonly attempt: number;
  readonly progress: Uint8Array | undefined;
}

/** What is known of an operation; undefined where the service did not say. */
export interface Operation {
  readonly id: OperationId;
  readonly state: OperationState;
  readonly fingerprint: Fingerprint | undefined;
  readonly owner: Owner;
  readonly labels: Readonly<Record<string, string>>;
  readonly attempt: number;
  readonly dispatched: boolean;
  readonly createTime: Date | undefined;
  readonly updateTime: Date | undefined;
  readonly leaseExpireTime: Date | undefined;
  readonly completeTime: Date | undefined;
  readonly nextAttemptTime: Date | undefined;
  readonly protectionExpireTime: Date | undefined;
  readonly verdict: Verdict;
  readonly unresolvedCause: UnresolvedCause;
  readonly providerRequestId: string;
  readonly response: CachedResponse | undefined;
  readonly etag: string;
}

const UTF8 = new TextEncoder();

/** A body or a header's value: text is encoded as UTF-8. */
export function bytesOf(value: string | Uint8Array): Uint8Array {
  return typeof value === 'string' ? UTF8.encode(value) : value;
}

/** An HTTP answer as a value to store: `httpAnswer(201, body, {contentType: 'application/json'})`. */
export function httpAnswer(
  status: number,
  body?: string | Uint8Array,
  more: { contentType?: string; headers?: readonly (readonly [string, string])[] } = {},
): CachedResponse {
  return {
    httpStatus: status,
    ...(body === undefined ? {} : { body: bytesOf(body) }),
    ...(more.contentType === undefined ? {} : { contentType: more.contentType }),
    metadata: (more.headers ?? []).map(([name, value]) => ({ name, value: bytesOf(value) })),
  };
}

/** The body as text; empty where there is none. Bytes that are no UTF-8 become U+FFFD. */
export function bodyText(response: CachedResponse | undefined): string {
  return new TextDecoder().decode(response?.body ?? new Uint8Array());
}
