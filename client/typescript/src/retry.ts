/** Repeats one call of the service until it is answered, refused for good, or the policy ends. */
import { CallError, ConnectionClosed, DEFAULT_CALL_TIMEOUT, isTransient } from './connection.js';
import type { CallOptions } from './connection.js';
import { backoffDelay } from './policies.js';
import type { BackoffPolicy, Environment, RetryPolicy } from './policies.js';

/** No try gets less: one that cannot succeed is none. So the last may end this much late. */
export const SHORTEST_CALL_TIMEOUT = 1_000;

/** What is left of a policy, from now on, by the environment's monotonic clock. */
export class RetryClock {
  #end: number;
  #attempts = 0;

  constructor(
    private readonly environment: Environment,
    private readonly policy: RetryPolicy,
    private readonly backoff: BackoffPolicy,
  ) {
    this.#end = environment.monotonicNow() + Math.max(policy.total, 0);
  }

  #left(): number {
    return Math.floor(this.#end - this.environment.monotonicNow());
  }

  /** Of the next try. */
  timeout(): number {
    return Math.min(Math.max(this.#left(), SHORTEST_CALL_TIMEOUT), DEFAULT_CALL_TIMEOUT);
  }

  /** Lets it end earlier than the policy says. */
  endWithin(span: number): void {
    this.#end = Math.min(this.#end, this.environment.monotonicNow() + span);
  }

  /** Whether there is another try after this failure; sleeps until it is due, or until `signal` is
   * aborted. `mayPass`: whether repeating can help. */
  async again(failure: CallError, mayPass: boolean, signal?: AbortSignal): Promise<boolean> {
    ++this.#attempts;
    if (!mayPass || this.#attempts >= this.policy.maxAttempts) return false;
    const delay = backoffDelay(this.backoff, this.#attempts + 1, this.environment.random());
    const longest = Math.max(delay, failure.refusal?.retryAfter ?? 0);
    if (longest >= this.#left()) return false;
    await this.environment.sleep(longest, signal);
    return true;
  }
}

/** Whether the service itself has refused in a way that does not pass. What anything on the way to it
 * says (UNKNOWN, INTERNAL, UNAUTHENTICATED ...) may be different the next time. */
export function isFinalRefusal(error: CallError): boolean {
  return error.refusal !== undefined && !isTransient(error);
}

/** Where something has happened that must be recorded: whatever is not a final refusal, while there
 * is a connection. */
export function isWorthPersisting(error: CallError): boolean {
  return !isFinalRefusal(error) && !(error instanceof ConnectionClosed);
}

/** Whatever is thrown as a CallError: a connection of a test, or a bearer token's function, may throw
 * anything. */
export function asCallError(thrown: unknown): CallError {
  if (thrown instanceof CallError) return thrown;
  return new CallError('UNKNOWN', thrown instanceof Error ? thrown.message : String(thrown));
}

/** What a call came to. */
export type Outcome<Response> =
  | { readonly response: Response; readonly error?: undefined }
  | { readonly response?: undefined; readonly error: CallError };

export async function outcomeOf<Response>(call: () => Promise<Response>): Promise<Outcome<Response>> {
  try {
    return { response: await call() };
  } catch (thrown) {
    return { error: asCallError(thrown) };
  }
}

/** The last answer is returned, whatever it is. */
export async function retry<Response>(
  clock: RetryClock,
  mayPass: (error: CallError) => boolean,
  call: (options: CallOptions) => Promise<Response>,
): Promise<Outcome<Response>> {
  for (;;) {
    const outcome = await outcomeOf(() => call({ timeout: clock.timeout() }));
    if (outcome.error === undefined) return outcome;
    if (!(await clock.again(outcome.error, mayPass(outcome.error)))) return outcome;
  }
}
