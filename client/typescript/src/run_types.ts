/** What Client.run is given, and what it returns. */
import type { Attempt } from './attempt.js';
import type { Classifier, EffectError, EffectResult } from './classification.js';
import type { Refusal } from './connection.js';
import type { BackoffPolicy, RetryPolicy } from './policies.js';
import type { CachedResponse, Fingerprint, NextStep, Operation, OperationId, Verdict } from './types.js';

/** Calls the provider. What it throws counts as an unknown outcome, is recorded, and goes on to the
 * caller of run. */
export type EffectFunction = (attempt: Attempt) => EffectResult | Promise<EffectResult>;

/** What a look-up found out about an operation whose outcome is unknown. */
export type LookUp =
  | { readonly found: 'UNKNOWN' | 'NOT_THERE'; readonly evidence?: string }
  | {
      readonly found: 'HAPPENED';
      readonly verdict?: 'SUCCEEDED' | 'FAILED' | undefined;
      readonly response?: CachedResponse | undefined;
      readonly providerRequestId?: string | undefined;
      /** What was asked and what it said, for the history. */
      readonly evidence?: string | undefined;
    };
export type LookUpFunction = (operation: Operation) => LookUp | Promise<LookUp>;

export interface RunRequest {
  readonly id: OperationId;
  readonly fingerprint?: Fingerprint | undefined;
  /** When the caller first sent this operation; lets the service say TOO_OLD instead of guessing. */
  readonly firstSent?: Date | undefined;
  /** Undefined: the namespace's default. */
  readonly leaseDuration?: number | undefined;
  /** How long to wait where another attempt is at it (20,000). Zero: stop at once. */
  readonly wait?: number | undefined;
  /** How long fn may take at most; then Attempt.signal is aborted. With renewal off it must fit into
   * the lease. Undefined: while the lease lasts. */
  readonly callTimeout?: number | undefined;
  readonly operationRef?: string | undefined;
  readonly traceparent?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** fn calls attempt.dispatch() before the outbound call; a crash before that frees the key. */
  readonly dispatchLater?: boolean | undefined;
  /** The caller has found out that an EXPIRED or TOO_OLD operation may be done anew. */
  readonly startOver?: boolean | undefined;
}

export interface RunOptions {
  /** Default: classifyGrpc. */
  readonly classify?: Classifier | undefined;
  /** Asked on RECONCILE_FIRST, on LOOK_UP_ANSWER, and after an unknown outcome of this run's own
   * attempt. Of an operation that is TOO_OLD it is given no more than the id, and NOT_THERE then
   * starts it over. */
  readonly lookUp?: LookUpFunction | undefined;
  /** Settle what lookUp found, in this name; needs the reconciler role. Undefined: only report it. */
  readonly reconciler?: string | undefined;
  /** Keep the lease alive while fn runs and its result is reported (true). */
  readonly renew?: boolean | undefined;
  /** For reserve, and for renewals that somebody waits for. The wait of the request comes on top. */
  readonly retry?: RetryPolicy | undefined;
  /** For complete, release and mark unresolved: these do not depend on the caller any more. */
  readonly settleRetry?: RetryPolicy | undefined;
  readonly backoff?: BackoffPolicy | undefined;
  /** Go on without protection where the service cannot be reached, or says that it is overloaded or
   * has no store: the effect may then happen twice. A refusal of any other kind stops all the same.
   * Off: fail closed. */
  readonly allowUnprotected?: boolean | undefined;
  /** Ends the run from outside: before the effect is dispatched the key is freed, after that it is
   * held and settled all the same. */
  readonly signal?: AbortSignal | undefined;
}

/** Why there is no answer. */
export type StopReason =
  /** Another attempt is at it: come back later. */
  | 'IN_PROGRESS'
  /** Its outcome is unknown: see nextStep. */
  | 'UNRESOLVED'
  /** The key belongs to another request. */
  | 'MISMATCH'
  /** It ended, and the answer is not kept: look it up. */
  | 'ANSWER_GONE'
  /** Closed without a known outcome. */
  | 'ABANDONED'
  /** Nothing is known of an old operation. */
  | 'TOO_OLD'
  /** This attempt certainly had no effect: try again later. */
  | 'NOTHING_HAPPENED'
  /** By the caller, before the effect was dispatched. */
  | 'CANCELLED'
  /** The service could not be reached, or not work: nothing was started. */
  | 'UNAVAILABLE'
  /** The service refused: see refusal. */
  | 'REFUSED'
  /** The request cannot work: see detail. */
  | 'INVALID';

interface RunEnd {
  readonly verdict: Verdict;
  readonly replayed: boolean;
  /** 'UNSPECIFIED' where none is named. */
  readonly nextStep: NextStep;
  readonly retryAfter: number | undefined;
  readonly refusal: Refusal | undefined;
  /** How fn's call ended where it did not answer. */
  readonly effectError: EffectError | undefined;
  /** How this run ended is not recorded: the service has not confirmed it within the settle policy,
   * or has refused (see refusal). Duplicates will find the operation pending or unresolved, or as
   * somebody else has settled it. */
  readonly recordOpen: boolean;
  /** It ran without protection (RunOptions.allowUnprotected). */
  readonly unprotected: boolean;
  readonly operation: Operation | undefined;
  /** One sentence for a log or a person. */
  readonly detail: string;
}

/** There is an answer: of this attempt, or replayed. */
export interface RunAnswer extends RunEnd {
  readonly stop: undefined;
  readonly response: CachedResponse;
}

/** There is none. */
export interface RunStop extends RunEnd {
  readonly stop: StopReason;
  /** What came instead of an answer, such as a 500, where it stopped as UNRESOLVED or
   * NOTHING_HAPPENED. */
  readonly response: CachedResponse | undefined;
}

export type RunResult = RunAnswer | RunStop;
