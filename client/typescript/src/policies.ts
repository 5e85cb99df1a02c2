/**
 * How often and how patiently the client repeats its own calls to the service (never the caller's
 * effect: that is the namespace's policy), and where it gets time and chance from.
 *
 * All spans are milliseconds.
 */
import { randomBytes } from 'node:crypto';
import { uptime } from 'node:os';

import { onAbort } from './on_abort.js';

/** When to stop repeating one call. Every call of the service may be repeated safely. */
export interface RetryPolicy {
  readonly total: number;
  /** Infinity: as many as fit into the total. */
  readonly maxAttempts: number;
}

export function retryUpTo(total: number): RetryPolicy {
  return { total, maxAttempts: Infinity };
}

/** initial, initial * factor ... at most maximum, each reduced by up to `jitter` of itself. A
 * retryAfter that the service sends wins where it is longer. */
export interface BackoffPolicy {
  readonly initial: number;
  readonly maximum: number;
  readonly factor: number;
  readonly jitter: number;
}

export const DEFAULT_RETRY: RetryPolicy = retryUpTo(30_000);
export const DEFAULT_SETTLE_RETRY: RetryPolicy = retryUpTo(120_000);
export const DEFAULT_BACKOFF: BackoffPolicy = {
  initial: 50,
  maximum: 5_000,
  factor: 2,
  jitter: 0.5,
};

const clamp = (value: number, low: number, high: number): number =>
  Math.min(Math.max(value, low), high);

/** beforeAttempt: 2 for the first repetition. random: in [0, 1). */
export function backoffDelay(policy: BackoffPolicy, beforeAttempt: number, random: number): number {
  if (beforeAttempt < 2) return 0;
  const most = Math.max(policy.maximum, 0);
  const first = clamp(policy.initial, 0, most);
  const grown = first === 0 ? 0 : first * Math.max(policy.factor, 1) ** (beforeAttempt - 2);
  const full = Math.floor(Math.min(grown, most));
  const part = clamp(policy.jitter, 0, 1) * clamp(random, 0, 1);
  return full - Math.floor(full * part);
}

/** Time and chance, so that tests decide both. */
export interface Environment {
  /** Monotonic; it goes on while the machine is suspended, where the system can tell. */
  monotonicNow(): number;
  /** Milliseconds since 1970: for the age of an operation; nothing else is decided by it. */
  wallNow(): number;
  /** Returns early where `signal` is aborted; never rejects. */
  sleep(span: number, signal?: AbortSignal): Promise<void>;
  /** Calls `action` once after the span, unless the returned function is called before. */
  schedule(span: number, action: () => void): () => void;
  /** In [0, 1). */
  random(): number;
  /** 16 random bytes as 32 hexadecimal digits, unguessable. */
  randomId(): string;
}

// How far the two clocks of the system may be apart by the coarseness of one of them.
const UPTIME_STEP = 20;
// setTimeout takes no more.
const LONGEST_TIMEOUT = 2 ** 31 - 1;

class SystemEnvironment implements Environment {
  // os.uptime counts while the machine is suspended, process.hrtime is finer.
  readonly #hrtimeBase = Number(process.hrtime.bigint()) / 1e6;
  readonly #uptimeBase = uptime() * 1000;
  #latest = 0;

  monotonicNow(): number {
    const awake = Number(process.hrtime.bigint()) / 1e6 - this.#hrtimeBase;
    const counted = uptime() * 1000 - this.#uptimeBase;
    const now = counted > awake + UPTIME_STEP ? counted : awake;
    this.#latest = Math.max(this.#latest, now);
    return this.#latest;
  }

  wallNow(): number {
    return Date.now();
  }

  async sleep(span: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        unfollow();
        resolve();
      };
      const timer = setTimeout(end, clamp(span, 0, LONGEST_TIMEOUT));
      const unfollow = onAbort(signal, end);
    });
  }

  schedule(span: number, action: () => void): () => void {
    const timer = setTimeout(action, clamp(span, 0, LONGEST_TIMEOUT));
    return () => clearTimeout(timer);
  }

  random(): number {
    return Math.random();
  }

  randomId(): string {
    return randomBytes(16).toString('hex');
  }
}

let system: Environment | undefined;

/** The system's. */
export function systemEnvironment(): Environment {
  return (system ??= new SystemEnvironment());
}
