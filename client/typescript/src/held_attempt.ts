/**
 * The attempt that fn is given: it knows how long its lease lasts by the own clock, keeps it alive in
 * the background, and says when it is lost.
 *
 *     held.start();
 *     await fn(held);
 *     held.letGoOfFn();      // nothing of fn's is called any more
 *     ... report the result ...
 *     held.stopRenewing();   // nothing of the client's is used any more
 *
 * Two things are in the timer meanwhile: the next renewal, and a watch over the end of the lease and
 * of fn's time.
 */
import type { Attempt } from './attempt.js';
import { CallError, DEFAULT_CALL_TIMEOUT, isTransient } from './connection.js';
import type { Connection, RenewRequest } from './connection.js';
import { providerKey } from './keys.js';
import { backoffDelay } from './policies.js';
import type { BackoffPolicy, Environment, RetryPolicy } from './policies.js';
import type { Place, RenewalTimer } from './renewal_timer.js';
import { RetryClock, SHORTEST_CALL_TIMEOUT, asCallError, isFinalRefusal, retry } from './retry.js';
import { StopSource } from './stop_source.js';
import { bytesOf } from './types.js';
import type { ErrorReason, Lease, OperationId } from './types.js';

/** How much of a lease is not relied on: a tenth of it, at least a second, at most half. */
export function leaseMargin(lease: number): number {
  return Math.min(Math.max(lease / 10, 1_000), lease / 2);
}

/** Renewals do not follow closer upon each other, however short the lease has become. */
export const RENEWAL_GAP = 250;

/** Refusals that say that the lease is somebody else's, or nobody's. */
const LEASE_LOST: readonly ErrorReason[] = [
  'OPERATION_NOT_FOUND',
  'STALE_FENCING_TOKEN',
  'UNKNOWN_FENCING_TOKEN',
  'LEASE_LAPSED',
  'ALREADY_COMPLETE',
  'ATTEMPT_FINISHED',
  'OUTCOME_UNKNOWN',
];

/** What dispatch rejects with: nothing may be sent, and nothing was. */
export class NotDispatched extends CallError {}

export interface HeldSetup {
  readonly connection: Connection;
  readonly environment: Environment;
  readonly timer: RenewalTimer;
  readonly id: OperationId;
  readonly lease: Lease;
  /** Monotonic time from before the request that returned the lease was sent. */
  readonly sentAt: number;
  readonly leaseDuration: number | undefined;
  readonly callTimeout: number | undefined;
  readonly dispatchLater: boolean;
  readonly renew: boolean;
  readonly retry: RetryPolicy;
  readonly backoff: BackoffPolicy;
  readonly cancelled: AbortSignal | undefined;
}

export class HeldAttempt implements Attempt {
  readonly #setup: HeldSetup;
  readonly providerKey: string;
  readonly #stop = new StopSource();
  #unfollow: () => void = () => undefined;

  // When the lease ends and when fn's time does, by the own monotonic clock; the margin of the lease
  // taken off.
  #leaseEnd = -Infinity;
  #callEnd = Infinity;
  // When half of the newest lease, or of what can be relied on of it, has gone.
  #half = -Infinity;
  #granted = 0;
  #active = false;
  #mayHaveStarted: boolean;
  #failedRenewals = 0;
  #renewal: Place | undefined;
  #watch: Place | undefined;

  constructor(setup: HeldSetup) {
    this.#setup = setup;
    this.providerKey = providerKey(setup.id);
    this.#mayHaveStarted = !setup.dispatchLater;
    this.#accept(setup.lease, setup.sentAt);
  }

  get id(): OperationId {
    return this.#setup.id;
  }
  get number(): number {
    return this.#setup.lease.attempt;
  }
  get fencingToken(): bigint {
    return this.#setup.lease.fencingToken;
  }
  get progress(): Uint8Array | undefined {
    return this.#setup.lease.progress;
  }
  get signal(): AbortSignal {
    return this.#stop.signal;
  }
  /** The longest lease that the service has given. */
  get granted(): number {
    return this.#granted;
  }
  /** Whether the outbound call may have started. */
  get mayHaveStarted(): boolean {
    return this.#mayHaveStarted;
  }

  // --- The lease ----------------------------------------------------------------------------------

  #now(): number {
    return this.#setup.environment.monotonicNow();
  }

  #makeRenewal(): RenewRequest {
    const { id, leaseDuration } = this.#setup;
    return { id, fencingToken: this.fencingToken, leaseDuration };
  }

  /** Extends the lease now, repeated as often as the retry policy says. Undefined: it is held, and
   * counts from before this call. */
  confirm(): Promise<CallError | undefined> {
    return this.#renewWith(this.#makeRenewal(), this.#setup.retry);
  }

  async #renewWith(request: RenewRequest, policy: RetryPolicy): Promise<CallError | undefined> {
    const { connection, environment, backoff } = this.#setup;
    let sentAt = 0;
    const clock = new RetryClock(environment, policy, backoff);
    const { response, error } = await retry(clock, isTransient, (options) => {
      sentAt = this.#now();
      return connection.renew(request, options);
    });
    if (response !== undefined) this.#accept(response.lease, sentAt);
    else if (isLeaseLost(error)) this.#stop.request('the lease is lost');
    return error;
  }

  /** As often as the policy and the lease allow. */
  #whileHeld(): RetryPolicy {
    const { retry: policy } = this.#setup;
    return { ...policy, total: Math.min(policy.total, this.remaining()) };
  }

  /** It counts from before the request was sent, and never gets shorter. */
  #accept(lease: Lease, sentAt: number): void {
    this.#failedRenewals = 0;
    this.#granted = Math.max(this.#granted, lease.remaining);
    const usable = lease.remaining - leaseMargin(lease.remaining);
    this.#leaseEnd = Math.max(this.#leaseEnd, sentAt + usable);
    this.#half = Math.max(this.#half, sentAt + usable / 2);
  }

  remaining(): number {
    return Math.max(0, Math.floor(this.#leaseEnd - this.#now()));
  }

  // --- In the background --------------------------------------------------------------------------

  /** Begins to renew, whenever half of what can be relied on has gone, and to count fn's time. */
  start(): void {
    const { callTimeout, renew, cancelled } = this.#setup;
    this.#active = true;
    this.#unfollow = this.#stop.follow(cancelled);
    if (callTimeout !== undefined) this.#callEnd = this.#now() + callTimeout;
    this.#watchAt(Math.min(this.#leaseEnd, this.#callEnd));
    if (renew) this.#renewAt(this.#half);
  }

  /** After it, nothing that waits for the signal is called. */
  letGoOfFn(): void {
    this.#stop.letGoOfFn();
    this.#unfollow();
  }

  stopRenewing(): void {
    this.#active = false;
    this.#unfollow();
    this.#setup.timer.cancel(this.#renewal);
    this.#setup.timer.cancel(this.#watch);
  }

  #renewAt(due: number): void {
    if (!this.#active) return;
    this.#renewal = this.#setup.timer.at(due, () => void this.#renewInBackground());
  }

  #watchAt(due: number): void {
    if (!this.#active) return;
    this.#watch = this.#setup.timer.at(due, () => this.#onWatch());
  }

  async #renewInBackground(): Promise<void> {
    if (!this.#active) return;
    // A renewal that somebody waited for has made this one unnecessary for a while.
    if (this.#half > this.#now() && this.#failedRenewals === 0) return this.#renewAt(this.#half);
    const timeout = Math.min(
      Math.max(this.remaining(), SHORTEST_CALL_TIMEOUT),
      DEFAULT_CALL_TIMEOUT,
    );
    const sentAt = this.#now();
    try {
      const { lease } = await this.#setup.connection.renew(this.#makeRenewal(), { timeout });
      this.#accept(lease, sentAt);
      this.#renewAt(Math.max(this.#half, this.#now() + RENEWAL_GAP));
    } catch (thrown) {
      this.#onNotRenewed(asCallError(thrown));
    }
  }

  #onNotRenewed(error: CallError): void {
    if (isFinalRefusal(error)) return this.#stop.request('the lease is lost');
    // It may pass. The lease may end meanwhile, which the watch tells; even then it is worth trying
    // while the result is reported: it keeps others away.
    const { backoff, environment } = this.#setup;
    const delay = backoffDelay(backoff, ++this.#failedRenewals + 1, environment.random());
    this.#renewAt(this.#now() + Math.max(delay, error.refusal?.retryAfter ?? 0));
  }

  #onWatch(): void {
    if (!this.#active) return;
    if (!this.#isOver()) return this.#watchAt(Math.min(this.#leaseEnd, this.#callEnd));
    this.#stop.request('the lease or the time of the call is over');
  }

  // --- What fn asks -------------------------------------------------------------------------------

  #isOver(): boolean {
    return this.remaining() <= 0 || this.#now() >= this.#callEnd;
  }

  shouldStop(): boolean {
    if (!this.#stop.requested && this.#isOver()) {
      this.#stop.request('the lease or the time of the call is over');
    }
    return this.#stop.requested;
  }

  async dispatch(): Promise<void> {
    if (this.#mayHaveStarted) return;
    if (this.shouldStop()) throw mustNotStart();
    const request = { ...this.#makeRenewal(), dispatched: true };
    const error = await this.#renewWith(request, this.#whileHeld());
    if (error !== undefined) throw new NotDispatched(error.code, error.message, error.refusal);
    if (this.shouldStop()) throw mustNotStart();
    this.#mayHaveStarted = true;
  }

  async saveProgress(progress: string | Uint8Array): Promise<void> {
    const request = { ...this.#makeRenewal(), progress: bytesOf(progress) };
    const error = await this.#renewWith(request, this.#whileHeld());
    if (error !== undefined) throw error;
  }
}

function isLeaseLost(error: CallError): boolean {
  return error.refusal !== undefined && LEASE_LOST.includes(error.refusal.reason);
}

function mustNotStart(): NotDispatched {
  return new NotDispatched(
    'CANCELLED',
    'the lease is lost, the time is up, or the caller cancelled: do not start the call',
  );
}
