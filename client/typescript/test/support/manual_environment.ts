/** A clock that stands still until somebody sleeps or moves it. */
import type { Environment } from '@idempotencyd/client';

interface Scheduled {
  readonly due: number;
  readonly action: () => void;
}

export class ManualEnvironment implements Environment {
  now = 1_000_000;
  wall = 1_700_000_000_000;
  /** What was slept, in order. */
  readonly slept: number[] = [];
  readonly #scheduled = new Set<Scheduled>();
  #ids = 0;

  monotonicNow(): number {
    return this.now;
  }
  wallNow(): number {
    return this.wall;
  }
  random(): number {
    return 0;
  }
  randomId(): string {
    return `attempt-${String(++this.#ids).padStart(24, '0')}`;
  }

  async sleep(span: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return;
    this.slept.push(span);
    await this.advance(span);
  }

  schedule(span: number, action: () => void): () => void {
    const one = { due: this.now + span, action };
    this.#scheduled.add(one);
    return () => this.#scheduled.delete(one);
  }

  /** How many actions are to come. */
  get scheduled(): number {
    return this.#scheduled.size;
  }

  /** Moves the clock, does what is due on the way, and lets what that began go on. */
  async advance(span: number): Promise<void> {
    const end = this.now + span;
    for (;;) {
      const [first] = [...this.#scheduled].sort((a, b) => a.due - b.due);
      if (first === undefined || first.due > end) break;
      this.#scheduled.delete(first);
      this.now = Math.max(this.now, first.due);
      first.action();
      await settled();
    }
    this.now = end;
    await settled();
  }
}

/** Lets everything run that waits for nothing but its turn. */
export async function settled(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve));
}
