/** For callers that want exceptions: `const response = answerOf(await client.run(...))`. */
import type { Refusal } from './connection.js';
import type { RunResult, RunStop, StopReason } from './run_types.js';
import type { CachedResponse, NextStep } from './types.js';

/** A run ended without an answer. What prints it shows neither key nor body. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
  readonly reason: StopReason;
  readonly nextStep: NextStep;
  /** Milliseconds, where waiting helps. */
  readonly retryAfter: number | undefined;
  readonly refusal: Refusal | undefined;
  readonly #result: RunStop;

  constructor(result: RunStop) {
    super(`${result.stop}, ${result.nextStep}: ${result.detail}`);
    this.reason = result.stop;
    this.nextStep = result.nextStep;
    this.retryAfter = result.retryAfter;
    this.refusal = result.refusal;
    this.#result = result;
  }

  /** All of it. */
  get result(): RunStop {
    return this.#result;
  }
}

/** The answer, of this attempt or replayed. Throws Stopped where there is none. */
export function answerOf(result: RunResult): CachedResponse {
  if (result.stop === undefined) return result.response;
  throw new Stopped(result);
}
