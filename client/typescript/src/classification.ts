/**
 * What an answer of the effect means for its operation: the one judgement that decides whether a
 * caller is charged twice. Classifiers are functions; the default tables are written out below, those
 * of providers are client/contracts/*.json (providers.ts), and all can be replaced.
 */
import { STATUS_CODES } from './types.js';
import type { CachedResponse, StatusCode, UnresolvedCause } from './types.js';

/** How a call ended that got no answer; 'OK' where it is not known. */
export interface EffectError {
  readonly code: StatusCode;
  readonly message: string;
}

/** What the caller's function saw of the effect; see `answered`, `failed` and `nothingHappened`. */
export interface EffectResult {
  /** The provider answered; otherwise `error` says how the call ended. */
  readonly response?: CachedResponse | undefined;
  readonly error?: EffectError | undefined;
  readonly providerRequestId?: string | undefined;
  /** The provider's own code inside the answer, where a profile (providers.ts) asks for one. Empty:
   * looked for, there is none; undefined: not looked for. */
  readonly providerCode?: string | undefined;
  /** Milliseconds that the provider asked to wait. */
  readonly retryAfter?: number | undefined;
  /** Set by a caller that knows better than any table. */
  readonly certainty?: 'NOTHING_HAPPENED' | 'UNKNOWN' | undefined;
  /** Of the operation, from 1; set by Client.run before it asks the classifier. Above 1 an earlier
   * attempt may have had its effect. */
  readonly attempt?: number | undefined;
}

type More = Omit<EffectResult, 'response' | 'error' | 'attempt'>;

export function answered(response: CachedResponse, more: More = {}): EffectResult {
  return { ...more, response };
}

/** The call ended without an answer. */
export function failed(code: StatusCode, message: string, more: More = {}): EffectResult {
  return { ...more, error: { code, message } };
}

/** The caller is certain that the effect did not happen, for example: never sent. */
export function nothingHappened(why: string, code: StatusCode = 'UNAVAILABLE'): EffectResult {
  return { error: { code, message: why }, certainty: 'NOTHING_HAPPENED' };
}

export type Disposition =
  /** complete, verdict SUCCEEDED: replay it */
  | 'SUCCEEDED'
  /** complete, verdict FAILED: final, the failure is the answer */
  | 'FAILED'
  /** release: another attempt may be made */
  | 'NOTHING_HAPPENED'
  /** mark unresolved: nobody knows */
  | 'UNKNOWN';

export interface Classification {
  readonly disposition: Disposition;
  /** UNKNOWN. */
  readonly cause: UnresolvedCause;
  /** UNKNOWN: no further attempt under any policy. */
  readonly reconcileFirst: boolean;
}

export type Classifier = (result: EffectResult) => Classification;

function known(disposition: Exclude<Disposition, 'UNKNOWN'>): Classification {
  return { disposition, cause: 'OTHER', reconcileFirst: false };
}

export function unknown(cause: UnresolvedCause = 'OTHER'): Classification {
  return { disposition: 'UNKNOWN', cause, reconcileFirst: false };
}

const SUCCEEDED = known('SUCCEEDED');
const FAILED = known('FAILED');
const NOTHING_HAPPENED = known('NOTHING_HAPPENED');

const GRPC_ROWS: Readonly<Record<StatusCode, Classification>> = {
  OK: SUCCEEDED,
  // Usually the caller's own doing, while the call was on its way.
  CANCELLED: unknown('OWNER_CANCELLED'),
  UNKNOWN: unknown('SERVER_ERROR'),
  INVALID_ARGUMENT: FAILED,
  DEADLINE_EXCEEDED: unknown('TIMEOUT'),
  NOT_FOUND: FAILED,
  ALREADY_EXISTS: FAILED, // on the first attempt
  PERMISSION_DENIED: NOTHING_HAPPENED,
  RESOURCE_EXHAUSTED: NOTHING_HAPPENED, // with a retryAfter
  FAILED_PRECONDITION: FAILED,
  // A conflict while it was being worked on: rolled back, or not.
  ABORTED: unknown('SERVER_ERROR'),
  OUT_OF_RANGE: FAILED,
  UNIMPLEMENTED: FAILED,
  INTERNAL: unknown('SERVER_ERROR'),
  // Also what a connection says that broke after the request was sent.
  UNAVAILABLE: unknown('CONNECTION_LOST'),
  DATA_LOSS: unknown('SERVER_ERROR'),
  UNAUTHENTICATED: NOTHING_HAPPENED,
};

function byGrpcCode(code: number, result: EffectResult): Classification {
  const name = STATUS_CODES[code];
  if (name === undefined) return unknown('OTHER');
  // What exists may be what an earlier attempt made.
  if (name === 'ALREADY_EXISTS' && (result.attempt ?? 1) > 1) return unknown('OTHER');
  // Without a time to come back it need not be a limit that was met before the work began.
  if (name === 'RESOURCE_EXHAUSTED' && result.retryAfter === undefined) {
    return unknown('SERVER_ERROR');
  }
  return GRPC_ROWS[name];
}

/** The first row that fits. */
const HTTP_ROWS: readonly (readonly [first: number, last: number, means: Classification])[] = [
  [200, 299, SUCCEEDED],
  // Send the same request elsewhere: it was not done here.
  [307, 308, FAILED],
  // A redirect after a POST usually follows its success.
  [300, 399, unknown('OTHER')],
  [401, 401, NOTHING_HAPPENED],
  [403, 403, NOTHING_HAPPENED],
  // Servers find out that they have no acceptable answer after they have done the work.
  [406, 406, unknown('SERVER_ERROR')],
  [407, 407, NOTHING_HAPPENED],
  // Also sent by proxies that waited for the server.
  [408, 408, unknown('TIMEOUT')],
  // The same key, or an earlier attempt, may be what it conflicts with.
  [409, 409, unknown('SERVER_ERROR')],
  // Meant for another server, which this one is not.
  [421, 421, NOTHING_HAPPENED],
  [423, 423, unknown('SERVER_ERROR')],
  // A part of the work failed; others may be done.
  [424, 424, unknown('SERVER_ERROR')],
  [425, 425, NOTHING_HAPPENED],
  [429, 429, NOTHING_HAPPENED],
  // What proxies note of a connection that was closed before the answer.
  [499, 499, unknown('CONNECTION_LOST')],
  [400, 498, FAILED],
  [504, 504, unknown('TIMEOUT')],
  [500, 599, unknown('SERVER_ERROR')],
];

function byHttpStatus(status: number): Classification {
  const row = HTTP_ROWS.find(([first, last]) => first <= status && status <= last);
  return row === undefined ? unknown('OTHER') : row[2];
}

/** The call ended without an answer: unknown, with the cause that its error shows. */
function noAnswer(result: EffectResult): Classification {
  switch (result.error?.code) {
    case 'DEADLINE_EXCEEDED':
      return unknown('TIMEOUT');
    case 'UNAVAILABLE':
      return unknown('CONNECTION_LOST');
    case 'CANCELLED':
      return unknown('OWNER_CANCELLED');
    default:
      return unknown('OTHER');
  }
}

/** What the caller is certain of; undefined where it is not. */
export function byCertainty(result: EffectResult): Classification | undefined {
  switch (result.certainty) {
    case 'NOTHING_HAPPENED':
      return NOTHING_HAPPENED;
    case 'UNKNOWN':
      return noAnswer(result);
    case undefined:
      return undefined;
  }
}

function byStatus(result: EffectResult): Classification | undefined {
  const response = result.response;
  if (response?.httpStatus !== undefined) return byHttpStatus(response.httpStatus);
  if (response?.grpcCode !== undefined) return byGrpcCode(response.grpcCode, result);
  return undefined;
}

/**
 * By google.rpc.Code of the answer or the error (a stub's status tells no difference between the
 * two); an answer without a status succeeded.
 *
 * A landed effect that is taken for "nothing happened" is done twice, so what may hide one is
 * unknown. That includes every call that ended without an answer: that a connection was refused
 * before anything was sent is certain only to whoever made it, who says so with `nothingHappened`.
 */
export const classifyGrpc: Classifier = (result) => {
  const early = byCertainty(result) ?? byStatus(result);
  if (early !== undefined) return early;
  if (result.response !== undefined) return SUCCEEDED;
  const code = result.error?.code ?? 'OK';
  return code === 'OK' ? noAnswer(result) : byGrpcCode(STATUS_CODES.indexOf(code), result);
};

/** By HTTP status; without an answer unknown, with the cause that the error's code shows. */
export const classifyHttp: Classifier = (result) =>
  byCertainty(result) ?? byStatus(result) ?? noAnswer(result);
