/** What fn is given where the service cannot be reached and the caller wants to go on all the same
 * (RunOptions.allowUnprotected): nothing is held, and there is nothing to lose. */
import type { Attempt } from './attempt.js';
import { CallError } from './connection.js';
import { NotDispatched } from './held_attempt.js';
import { providerKey } from './keys.js';
import type { Environment } from './policies.js';
import type { Place, RenewalTimer } from './renewal_timer.js';
import { StopSource } from './stop_source.js';
import type { RunRequest } from './run_types.js';
import type { OperationId } from './types.js';

const NO_LIMIT = 24 * 3_600_000;

export class UnprotectedAttempt implements Attempt {
  // An earlier one that nobody knows of may have had its effect.
  readonly number = 2;
  readonly fencingToken = 0n;
  readonly progress = undefined;
  readonly providerKey: string;
  readonly id: OperationId;
  readonly #stop = new StopSource();
  readonly #end: number;
  readonly #watch: Place;
  readonly #unfollow: () => void;
  #mayHaveStarted: boolean;

  constructor(
    { id, callTimeout, dispatchLater }: RunRequest,
    private readonly environment: Environment,
    private readonly timer: RenewalTimer,
    cancelled: AbortSignal | undefined,
  ) {
    this.id = id;
    this.#mayHaveStarted = !(dispatchLater ?? false);
    this.providerKey = providerKey(id);
    this.#end = environment.monotonicNow() + Math.min(callTimeout ?? NO_LIMIT, NO_LIMIT);
    this.#watch = timer.at(this.#end, () => this.#stop.request('the time of the call is over'));
    this.#unfollow = this.#stop.follow(cancelled);
  }

  /** fn has ended. */
  end(): void {
    this.#stop.letGoOfFn();
    this.#unfollow();
    this.timer.cancel(this.#watch);
  }

  /** Whether the outbound call may have started. */
  get mayHaveStarted(): boolean {
    return this.#mayHaveStarted;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  shouldStop(): boolean {
    if (this.remaining() <= 0) this.#stop.request('the time of the call is over');
    return this.#stop.requested;
  }

  /** Of callTimeout; a day where there is none. */
  remaining(): number {
    return Math.max(0, Math.floor(this.#end - this.environment.monotonicNow()));
  }

  async dispatch(): Promise<void> {
    if (this.#mayHaveStarted) return;
    if (this.shouldStop()) {
      throw new NotDispatched(
        'CANCELLED',
        'the time is up or the caller cancelled: do not start the call',
      );
    }
    this.#mayHaveStarted = true;
  }

  async saveProgress(): Promise<void> {
    throw new CallError(
      'FAILED_PRECONDITION',
      'nothing is held, so progress cannot be kept: the service could not be reached',
    );
  }
}
