/**
 * The calls of the service, one method each: what Client is built on, and what tests replace.
 * `connect` (grpc_connection.ts) makes the real one.
 *
 * Every call may be repeated: the same ids get the same answer. A call that fails rejects with
 * CallError; it may have been applied or not, unless its `refusal` says that it was not.
 */
import type {
  CachedResponse,
  ErrorReason,
  Fingerprint,
  Lease,
  NextStep,
  Operation,
  OperationId,
  OperationState,
  Owner,
  ReserveOutcome,
  StatusCode,
  UnresolvedCause,
} from './types.js';

/** Why the service refused a call. */
export interface Refusal {
  readonly reason: ErrorReason;
  /** The field at fault, as a path from the request; empty where none is. */
  readonly field: string;
  /** Milliseconds after which the same call may succeed. */
  readonly retryAfter: number | undefined;
}

/** How a call failed. It holds nothing of the request, and no credential. */
export class CallError extends Error {
  override readonly name: string = 'CallError';

  constructor(
    readonly code: StatusCode,
    message: string,
    /** Undefined where the service did not refuse: the call was lost, timed out, or never sent. */
    readonly refusal?: Refusal,
  ) {
    super(message);
  }

  get reason(): ErrorReason | undefined {
    return this.refusal?.reason;
  }
}

/** The connection was closed on this side: every further call ends like this. */
export class ConnectionClosed extends CallError {
  override readonly name = 'ConnectionClosed';

  constructor() {
    super('FAILED_PRECONDITION', 'the connection has been closed');
  }
}

const PASSING_REASONS: readonly ErrorReason[] = [
  'QUOTA_EXCEEDED',
  'OVERLOADED',
  'STORE_UNAVAILABLE',
];
const PASSING_CODES: readonly StatusCode[] = ['UNAVAILABLE', 'DEADLINE_EXCEEDED', 'CANCELLED'];

/** Whether repeating may help: UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED by the network, and
 * RESOURCE_EXHAUSTED with a reason that passes. A refusal for anything else is final. */
export function isTransient(error: CallError): boolean {
  if (error.refusal !== undefined) return PASSING_REASONS.includes(error.refusal.reason);
  return PASSING_CODES.includes(error.code);
}

/** How long a call may take where its caller does not say, in milliseconds. */
export const DEFAULT_CALL_TIMEOUT = 10_000;

export interface CallOptions {
  /** Milliseconds that the call may take in all. A waiting Reserve needs its wait on top. */
  readonly timeout?: number | undefined;
  /** Ends the call early, with CANCELLED; whether it was applied is then unknown. */
  readonly signal?: AbortSignal | undefined;
}

export interface ReserveRequest {
  readonly id: OperationId;
  readonly fingerprint?: Fingerprint | undefined;
  /** 16-64 bytes, random, for one attempt. */
  readonly attemptId: string;
  readonly leaseDuration?: number | undefined;
  readonly waitDuration?: number | undefined;
  readonly owner?: Partial<Owner> | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly operationAge?: number | undefined;
  readonly dispatchLater?: boolean | undefined;
  readonly startOver?: boolean | undefined;
}

export interface ReserveResponse {
  readonly outcome: ReserveOutcome;
  readonly nextStep: NextStep;
  readonly lease: Lease | undefined;
  readonly operation: Operation | undefined;
  readonly retryAfter: number | undefined;
  readonly detail: string;
}

export interface RenewRequest {
  readonly id: OperationId;
  readonly fencingToken: bigint;
  readonly leaseDuration?: number | undefined;
  readonly progress?: Uint8Array | undefined;
  readonly dispatched?: boolean | undefined;
  readonly owner?: Partial<Owner> | undefined;
}

export interface RenewResponse {
  readonly lease: Lease;
}

export interface CompleteRequest {
  readonly id: OperationId;
  readonly fencingToken: bigint;
  readonly verdict: 'SUCCEEDED' | 'FAILED';
  readonly response?: CachedResponse | undefined;
  readonly providerRequestId?: string | undefined;
  readonly retention?: number | undefined;
}

export interface CompleteResponse {
  readonly operation: Operation;
  readonly alreadyComplete: boolean;
}

export interface ReleaseRequest {
  readonly id: OperationId;
  readonly fencingToken: bigint;
  readonly detail?: string | undefined;
}

export interface ReleaseResponse {
  readonly state: OperationState;
}

export interface MarkUnresolvedRequest {
  readonly id: OperationId;
  readonly fencingToken: bigint;
  readonly cause?: UnresolvedCause | undefined;
  readonly detail?: string | undefined;
  readonly providerRequestId?: string | undefined;
  readonly retryAfter?: number | undefined;
  readonly reconcileFirst?: boolean | undefined;
}

export interface MarkUnresolvedResponse {
  readonly operation: Operation;
  readonly nextStep: NextStep;
  readonly retryAfter: number | undefined;
}

export interface GetOperationRequest {
  readonly id: OperationId;
  readonly waitDuration?: number | undefined;
  readonly fingerprint?: Fingerprint | undefined;
}

export interface GetOperationResponse {
  readonly operation: Operation;
  readonly nextStep: NextStep;
  readonly retryAfter: number | undefined;
}

/** What an UNRESOLVED operation is settled as; needs the reconciler role. */
export type Resolution =
  | {
      readonly kind: 'COMPLETED';
      readonly verdict: 'SUCCEEDED' | 'FAILED';
      readonly response?: CachedResponse | undefined;
    }
  | { readonly kind: 'NOT_EXECUTED' }
  | { readonly kind: 'ABANDONED' };

export interface ResolveRequest {
  readonly id: OperationId;
  readonly resolution: Resolution;
  /** Required: who decided. */
  readonly actor: string;
  /** Required: on what evidence. */
  readonly reason: string;
  readonly providerRequestId?: string | undefined;
  /** Settle only what was seen. */
  readonly etag?: string | undefined;
}

/** For reconcilers and operators; needs their access, as resolve does. */
export interface ListOperationsRequest {
  readonly namespace: string;
  /** Empty: all that the caller may see. */
  readonly scope?: string | undefined;
  readonly keyPrefix?: string | undefined;
  /** Exactly this one; empty: any. */
  readonly operationRef?: string | undefined;
  /** As they are now; empty: all but FREED. Where it is just UNRESOLVED: oldest first. */
  readonly states?: readonly OperationState[] | undefined;
  /** Last updated at least this long ago. */
  readonly minAge?: number | undefined;
  /** At most 1,000; 0: 100. */
  readonly pageSize?: number | undefined;
  /** nextPageToken of the page before, with the same filter. */
  readonly pageToken?: string | undefined;
}

export interface ListOperationsResponse {
  /** Without their responses and digests. May be fewer than asked for, even none. */
  readonly operations: readonly Operation[];
  /** Empty: that was all. */
  readonly nextPageToken: string;
}

/** One command of a batch, by the name of its method. */
export type Command =
  | { readonly reserve: ReserveRequest }
  | { readonly renew: RenewRequest }
  | { readonly complete: CompleteRequest }
  | { readonly release: ReleaseRequest }
  | { readonly markUnresolved: MarkUnresolvedRequest }
  | { readonly getOperation: GetOperationRequest };

/** What became of a command: the response of its method, or how it failed. */
export type CommandResult =
  | { readonly reserve: ReserveResponse }
  | { readonly renew: RenewResponse }
  | { readonly complete: CompleteResponse }
  | { readonly release: ReleaseResponse }
  | { readonly markUnresolved: MarkUnresolvedResponse }
  | { readonly getOperation: GetOperationResponse }
  | { readonly error: CallError };

export interface Connection {
  reserve(request: ReserveRequest, options?: CallOptions): Promise<ReserveResponse>;
  renew(request: RenewRequest, options?: CallOptions): Promise<RenewResponse>;
  complete(request: CompleteRequest, options?: CallOptions): Promise<CompleteResponse>;
  release(request: ReleaseRequest, options?: CallOptions): Promise<ReleaseResponse>;
  markUnresolved(
    request: MarkUnresolvedRequest,
    options?: CallOptions,
  ): Promise<MarkUnresolvedResponse>;
  getOperation(request: GetOperationRequest, options?: CallOptions): Promise<GetOperationResponse>;
  resolve(request: ResolveRequest, options?: CallOptions): Promise<Operation>;
  listOperations(
    request: ListOperationsRequest,
    options?: CallOptions,
  ): Promise<ListOperationsResponse>;
  /** Up to 1,024 independent commands, none of which waits; results in their order. */
  batch(commands: readonly Command[], options?: CallOptions): Promise<readonly CommandResult[]>;
}
