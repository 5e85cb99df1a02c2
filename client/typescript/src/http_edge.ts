/**
 * The HTTP side of a service that receives keys: from the Idempotency-Key field to the answer, as
 * functions for any framework.
 *
 *     const field = parseKeyField(request.headersDistinct['idempotency-key'] ?? []);
 *     if (field.problem !== undefined) return send(answerKeyProblem(field.problem));
 *     const id = {namespace: 'orders', scope: account, key: field.key};
 *     return send(answerRun(await client.run({id, fingerprint}, handler, options)));
 *
 * Whoever asks, not the header, decides the scope: take it from the authenticated caller.
 *
 * What differs from a replay is a problem document (RFC 9457, application/problem+json) with type,
 * title, status and detail, and next_step where the service named one: the rows below. Retry-After is
 * in whole seconds, rounded up, at least 1.
 */
import type { CallError, Refusal, ReserveResponse } from './connection.js';
import type { KeyProblem } from './http_key_field.js';
import { canonicalJson } from './json_canonical.js';
import type { RunResult } from './run_types.js';
import { bytesOf } from './types.js';
import type { CachedResponse, NextStep, Verdict } from './types.js';

export const KEY_FIELD_NAME = 'Idempotency-Key';
/** "true" on every replayed answer, and on no other. */
export const REPLAYED_FIELD_NAME = 'Idempotency-Replayed';

/** What to send. Names and values are fit for an HTTP message: no line breaks, no framing and no
 * hop-by-hop fields, which are the server's. Values are text of the bytes 0x00-0xFF ('latin1'), as
 * Node's servers take them. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array | undefined;
}

export interface ProblemOptions {
  /** "type" of a problem document is this and the problem's name ("in-progress"). The default only
   * names the problem, and is no address (RFC 4151); better is that of your own documentation. */
  readonly typePrefix?: string | undefined;
}
const TYPE_PREFIX = 'tag:idempotencyd.dev,2026:problem/';

interface Row {
  readonly status: number;
  readonly retryAfter: 'NEVER' | 'IF_KNOWN' | 'ALWAYS';
  readonly title: string;
  readonly detail: string;
}

const row = (status: number, retryAfter: Row['retryAfter'], title: string, detail: string): Row => ({
  status,
  retryAfter,
  title,
  detail,
});

const SAME_AGAIN = 'Send the same request with the same key again after the time in Retry-After.';

const ROWS = {
  'key-missing': row(400, 'NEVER', 'Idempotency-Key is missing',
    'Send one key for each operation in the Idempotency-Key field, and the same one with every ' +
      'retry.'),
  'key-invalid': row(400, 'NEVER', 'Idempotency-Key is not valid',
    'Send one key in the Idempotency-Key field, as a string in quotes or as plain characters, ' +
      'within the length that is allowed.'),
  'in-progress': row(409, 'ALWAYS', 'A request with this Idempotency-Key is in progress',
    SAME_AGAIN),
  'key-reused': row(422, 'NEVER', 'Idempotency-Key was used for another request',
    'Send the request that the key was first used for, or a key of its own for this one.'),
  unresolved: row(409, 'IF_KNOWN', 'The outcome of this operation is not known',
    'It may have happened. Do not send it with another key; ask what became of it, or send the ' +
      'same request with the same key later.'),
  'answer-gone': row(409, 'NEVER', 'This operation has ended, and its answer is no longer kept',
    'Do not send it with another key; look up what it did.'),
  closed: row(409, 'NEVER', 'This operation was closed without a known outcome',
    'It will not be attempted again under this key.'),
  'too-old': row(409, 'NEVER', 'Nothing is known of an operation this old',
    'Look up whether it happened before sending it anew.'),
  failed: row(409, 'NEVER', 'This operation has failed',
    'It ended without the wanted effect; a new try is a new operation with its own key.'),
  'nothing-happened': row(503, 'ALWAYS', 'This operation could not be done now, and had no effect',
    SAME_AGAIN),
  unavailable: row(503, 'ALWAYS', 'This operation could not be started', SAME_AGAIN),
  'quota-exceeded': row(429, 'ALWAYS', 'There are too many new operations', SAME_AGAIN),
  forbidden: row(403, 'NEVER', 'This operation is not allowed', 'Ask for access to it.'),
  internal: row(500, 'NEVER', 'This operation could not be checked for repetition',
    'Nothing was started. Report this with the time it happened.'),
} as const satisfies Record<string, Row>;
export type ProblemName = keyof typeof ROWS;

interface Problem {
  readonly nextStep?: NextStep | undefined;
  readonly retryAfter?: number | undefined;
}

/** Whole seconds, at least 1; undefined: waiting does not help. */
function retrySeconds({ retryAfter }: Row, span: number | undefined): number | undefined {
  if (retryAfter === 'NEVER' || (retryAfter === 'IF_KNOWN' && span === undefined)) return undefined;
  return Math.max(Math.ceil((span ?? 0) / 1000), 1);
}

function answerProblem(
  name: ProblemName,
  { nextStep = 'UNSPECIFIED', retryAfter }: Problem,
  { typePrefix = TYPE_PREFIX }: ProblemOptions,
): HttpAnswer {
  const { status, title, detail } = ROWS[name];
  const step = nextStep === 'UNSPECIFIED' ? {} : { next_step: nextStep };
  const document = { type: typePrefix + name, title, status, detail, ...step };
  const seconds = retrySeconds(ROWS[name], retryAfter);
  return {
    status,
    headers: [
      ['Content-Type', 'application/problem+json'],
      ['Cache-Control', 'no-store'],
      ...(seconds === undefined ? [] : [['Retry-After', String(seconds)] as const]),
    ],
    body: bytesOf(canonicalJson(JSON.stringify(document))),
  };
}

// --- Stored answers -------------------------------------------------------------------------------

/** The HTTP status that google/rpc/code.proto gives each code, by number. */
const STATUS_OF_GRPC_CODE: readonly number[] = [
  200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401,
];

// What frames a message or belongs to one connection is for the server to write, and the marker is
// this answer's own.
const OWN_FIELDS: readonly string[] = [
  'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'te', 'trailer',
  'transfer-encoding', 'upgrade', 'content-length', 'content-type', 'idempotency-replayed',
  'set-cookie',
];

function mayBeReplayed(name: string, value: string): boolean {
  const token = /^[0-9A-Za-z!#$%&'*+\-.^_`|~]+$/.test(name);
  // A line break would begin another field.
  return token && !/[\r\n\0]/.test(value) && !OWN_FIELDS.includes(name.toLowerCase());
}

function statusOf({ httpStatus, grpcCode, body }: CachedResponse): number {
  // An interim status or none at all can end no exchange.
  if (httpStatus !== undefined) return httpStatus >= 200 && httpStatus <= 599 ? httpStatus : 500;
  if (grpcCode !== undefined) return STATUS_OF_GRPC_CODE[grpcCode] ?? 500;
  return body === undefined ? 204 : 200;
}

const REPLAYED = [REPLAYED_FIELD_NAME, 'true'] as const;

function stored(response: CachedResponse, replayed: boolean): HttpAnswer {
  const contentType = response.contentType ?? '';
  const hasType = contentType !== '' && mayBeReplayed('Any-Name', contentType);
  const fields = (response.metadata ?? [])
    .map(({ name, value }) => [name, Buffer.from(value).toString('latin1')] as const)
    .filter(([name, value]) => mayBeReplayed(name, value));
  return {
    status: statusOf(response),
    headers: [
      ...(hasType ? [['Content-Type', contentType] as const] : []),
      ...fields,
      ...(replayed ? [REPLAYED] : []),
    ],
    body: response.body,
  };
}

/** What has ended: with an answer, without one, or with one that is not here any more. */
function answerEnded(
  verdict: Verdict,
  response: CachedResponse | undefined,
  replayed: boolean,
  options: ProblemOptions,
): HttpAnswer {
  if (verdict === 'ABANDONED') return answerProblem('closed', { nextStep: 'STOP' }, options);
  if (response?.bodyOmitted === true && response.body === undefined) {
    return answerProblem('answer-gone', { nextStep: 'LOOK_UP_ANSWER' }, options);
  }
  const hasStatus = response?.httpStatus !== undefined || response?.grpcCode !== undefined;
  // A failure without a status of its own must not look like a success.
  if (hasStatus || verdict !== 'FAILED') return stored(response ?? {}, replayed);
  const answer = answerProblem('failed', {}, options);
  return replayed ? { ...answer, headers: [...answer.headers, REPLAYED] } : answer;
}

// --- Refusals -------------------------------------------------------------------------------------

function problemOf({ reason, field }: Refusal): ProblemName {
  switch (reason) {
    case 'INVALID_FIELD':
      // What the HTTP client decides: its key.
      return field === 'id.key' ? 'key-invalid' : 'internal';
    case 'ACCESS_DENIED':
      return 'forbidden';
    case 'QUOTA_EXCEEDED':
      return 'quota-exceeded';
    case 'OVERLOADED':
    case 'STORE_FULL':
    case 'STORE_UNAVAILABLE':
      return 'unavailable';
    case 'RECORD_UNREADABLE':
      return 'unresolved';
    default:
      return 'internal';
  }
}

function refuse(refusal: Refusal | undefined, options: ProblemOptions): HttpAnswer {
  if (refusal === undefined) return answerProblem('internal', {}, options);
  return answerProblem(problemOf(refusal), { retryAfter: refusal.retryAfter }, options);
}

const PROBLEM_OF_STOP = {
  IN_PROGRESS: 'in-progress',
  UNRESOLVED: 'unresolved',
  MISMATCH: 'key-reused',
  ANSWER_GONE: 'answer-gone',
  ABANDONED: 'closed',
  TOO_OLD: 'too-old',
  NOTHING_HAPPENED: 'nothing-happened',
  CANCELLED: 'nothing-happened',
  UNAVAILABLE: 'unavailable',
  INVALID: 'internal',
} as const;

export function answerKeyProblem(problem: KeyProblem, options: ProblemOptions = {}): HttpAnswer {
  return answerProblem(problem === 'MISSING' ? 'key-missing' : 'key-invalid', {}, options);
}

/** The stored answer as it was, and Idempotency-Replayed: true where it is a replay. Without a status
 * of its own: 200, and 204 without a body; a gRPC code becomes the HTTP status that google.rpc.Code
 * names. */
export function answerRun(result: RunResult, options: ProblemOptions = {}): HttpAnswer {
  if (result.stop === undefined) {
    return answerEnded(result.verdict, result.response, result.replayed, options);
  }
  if (result.stop === 'REFUSED') return refuse(result.refusal, options);
  return answerProblem(PROBLEM_OF_STOP[result.stop], result, options);
}

/** For callers of Connection.reserve. Undefined: this attempt has acquired (or still holds) the
 * operation, and the handler runs. */
export function answerReserve(
  response: ReserveResponse,
  options: ProblemOptions = {},
): HttpAnswer | undefined {
  const { operation, outcome } = response;
  const problem = (name: ProblemName): HttpAnswer => answerProblem(name, response, options);
  switch (response.nextStep) {
    case 'PROCEED':
    case 'PROCEED_UNLESS_STARTED':
      return undefined;
    case 'RESERVE_AGAIN':
      return problem(outcome === 'UNRESOLVED' ? 'unresolved' : 'in-progress');
    case 'USE_RESPONSE':
      return answerEnded(operation?.verdict ?? 'UNSPECIFIED', operation?.response, true, options);
    case 'LOOK_UP_ANSWER':
      return problem('answer-gone');
    case 'RECONCILE_FIRST':
      return problem(outcome === 'TOO_OLD' ? 'too-old' : 'unresolved');
    case 'SETTLE_OTHER_FIRST':
    case 'USE_OWN_KEY':
      return problem('key-reused');
    case 'STOP':
    case 'UNSPECIFIED':
    case 'UNKNOWN': // a step that this library does not know is to be taken as STOP
      return problem('closed');
  }
}

/** For a Reserve that failed: what its refusal says, or unavailable. */
export function answerReserveError(error: CallError, options: ProblemOptions = {}): HttpAnswer {
  if (error.refusal !== undefined) return refuse(error.refusal, options);
  return answerProblem('unavailable', {}, options);
}
