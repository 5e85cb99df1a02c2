/** What the parts of one run share: the connection, and what the caller asked for. */
import { classifyGrpc } from './classification.js';
import type { Classifier } from './classification.js';
import type { CallOptions, Connection } from './connection.js';
import { DEFAULT_BACKOFF, DEFAULT_RETRY, DEFAULT_SETTLE_RETRY } from './policies.js';
import type { BackoffPolicy, Environment, RetryPolicy } from './policies.js';
import type { RenewalTimer } from './renewal_timer.js';
import { RetryClock, isWorthPersisting, retry } from './retry.js';
import type { Outcome } from './retry.js';
import type { EffectFunction, LookUpFunction, RunOptions, RunRequest, RunStop } from './run_types.js';
import type { NextStep } from './types.js';

export const DEFAULT_WAIT = 20_000;

export class RunContext {
  readonly classify: Classifier;
  readonly lookUp: LookUpFunction | undefined;
  readonly reconciler: string;
  readonly renew: boolean;
  readonly retry: RetryPolicy;
  readonly settleRetry: RetryPolicy;
  readonly backoff: BackoffPolicy;
  readonly allowUnprotected: boolean;
  readonly signal: AbortSignal | undefined;

  constructor(
    readonly connection: Connection,
    readonly environment: Environment,
    readonly timer: RenewalTimer,
    readonly request: RunRequest,
    readonly fn: EffectFunction,
    options: RunOptions,
  ) {
    this.classify = options.classify ?? classifyGrpc;
    this.lookUp = options.lookUp;
    this.reconciler = options.reconciler ?? '';
    this.renew = options.renew ?? true;
    this.retry = options.retry ?? DEFAULT_RETRY;
    this.settleRetry = options.settleRetry ?? DEFAULT_SETTLE_RETRY;
    this.backoff = options.backoff ?? DEFAULT_BACKOFF;
    this.allowUnprotected = options.allowUnprotected ?? false;
    this.signal = options.signal;
  }

  get wait(): number {
    return this.request.wait ?? DEFAULT_WAIT;
  }

  get isCancelled(): boolean {
    return this.signal?.aborted ?? false;
  }

  /** Reports something that must be recorded, as patiently as settleRetry says, whether the caller
   * still waits for it or not. */
  settle<Response>(call: (options: CallOptions) => Promise<Response>): Promise<Outcome<Response>> {
    const clock = new RetryClock(this.environment, this.settleRetry, this.backoff);
    return retry(clock, isWorthPersisting, call);
  }
}

/** How a run ends without an answer. */
export function stopped(stop: RunStop['stop'], nextStep: NextStep, detail: string): RunStop {
  return {
    stop,
    nextStep,
    detail,
    response: undefined,
    verdict: 'UNSPECIFIED',
    replayed: false,
    retryAfter: undefined,
    refusal: undefined,
    effectError: undefined,
    recordOpen: false,
    unprotected: false,
    operation: undefined,
  };
}
