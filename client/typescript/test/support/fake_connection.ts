/** A connection whose answers a test decides; what it does not decide goes well. */
import { CallError } from '@idempotencyd/client';
import type {
  CallOptions,
  Connection,
  ErrorReason,
  Lease,
  Operation,
  RenewResponse,
  ReserveResponse,
  StatusCode,
} from '@idempotencyd/client';

type Method = Exclude<keyof Connection, 'batch' | 'listOperations'>;
type Answer<M extends Method> = Awaited<ReturnType<Connection[M]>>;
type Script = {
  [M in Method]?: (
    request: Parameters<Connection[M]>[0],
    options: CallOptions,
  ) => Answer<M> | Promise<Answer<M>>;
};

export const OPERATION: Operation = {
  id: { namespace: 'payments', scope: 'acct_1', key: 'order-1' },
  state: 'PENDING',
  fingerprint: undefined,
  owner: { worker: '', operationRef: '', traceparent: '' },
  labels: {},
  attempt: 1,
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

export const lease = (remaining = 30_000): Lease => ({
  fencingToken: 7n,
  expireTime: undefined,
  remaining,
  attempt: 1,
  progress: undefined,
});

export const acquired = (remaining?: number): ReserveResponse => ({
  outcome: 'ACQUIRED',
  nextStep: 'PROCEED',
  lease: lease(remaining),
  operation: OPERATION,
  retryAfter: undefined,
  detail: '',
});

export const renewed = (remaining?: number): RenewResponse => ({ lease: lease(remaining) });

export const refused = (
  code: StatusCode,
  reason: ErrorReason,
  retryAfter?: number,
): CallError => new CallError(code, 'refused', { reason, field: '', retryAfter });

export const lost = (): CallError => new CallError('UNAVAILABLE', 'the connection broke');

/** answers: by method, one call after the other; an error is thrown. The last one stays. */
export function inTurn<Value>(...answers: (Value | CallError)[]): () => Value {
  let next = 0;
  return () => {
    const answer = answers[Math.min(next++, answers.length - 1)];
    if (answer instanceof CallError || answer === undefined) throw answer ?? lost();
    return answer;
  };
}

export class FakeConnection implements Connection {
  /** Every call: its method, its request and its options. */
  readonly calls: { method: Method; request: object; options: CallOptions }[] = [];

  constructor(readonly script: Script = {}) {}

  methods(): string[] {
    return this.calls.map(({ method }) => method);
  }
  requests(method: Method): object[] {
    return this.calls.filter((call) => call.method === method).map(({ request }) => request);
  }

  async #answer<M extends Method>(
    method: M,
    request: Parameters<Connection[M]>[0],
    options: CallOptions = {},
    otherwise: () => Answer<M>,
  ): Promise<Answer<M>> {
    this.calls.push({ method, request, options });
    const scripted = this.script[method] as
      | ((request: unknown, options: CallOptions) => Answer<M> | Promise<Answer<M>>)
      | undefined;
    return scripted === undefined ? otherwise() : scripted(request, options);
  }

  reserve: Connection['reserve'] = (request, options) =>
    this.#answer('reserve', request, options, () => acquired());
  renew: Connection['renew'] = (request, options) =>
    this.#answer('renew', request, options, () => renewed());
  complete: Connection['complete'] = (request, options) =>
    this.#answer('complete', request, options, () => ({
      operation: { ...OPERATION, state: 'COMPLETE', verdict: request.verdict },
      alreadyComplete: false,
    }));
  release: Connection['release'] = (request, options) =>
    this.#answer('release', request, options, () => ({ state: 'FREED' }));
  markUnresolved: Connection['markUnresolved'] = (request, options) =>
    this.#answer('markUnresolved', request, options, () => ({
      operation: { ...OPERATION, state: 'UNRESOLVED' },
      nextStep: 'RECONCILE_FIRST',
      retryAfter: undefined,
    }));
  getOperation: Connection['getOperation'] = (request, options) =>
    this.#answer('getOperation', request, options, () => ({
      operation: OPERATION,
      nextStep: 'RESERVE_AGAIN',
      retryAfter: undefined,
    }));
  resolve: Connection['resolve'] = (request, options) =>
    this.#answer('resolve', request, options, () => OPERATION);
  listOperations: Connection['listOperations'] = () =>
    Promise.reject(new CallError('UNIMPLEMENTED', 'not in this fake'));
  batch: Connection['batch'] = () =>
    Promise.reject(new CallError('UNIMPLEMENTED', 'not in this fake'));
}
