/** One timer that does small things when they are due, for all running operations of a client. */
import type { Environment } from './policies.js';

// While something is to come, the clock is looked at now and then: a machine that was asleep wakes up
// at another time than a wait ends.
const LONGEST_WAIT = 1_000;

/** Names an action. */
export interface Place {
  readonly due: number;
  readonly id: number;
  readonly action: () => void;
}

const before = (a: Place, b: Place): boolean => a.due < b.due || (a.due === b.due && a.id < b.id);

export class RenewalTimer {
  /** By due and id. */
  readonly #places: Place[] = [];
  #lastId = 0;
  #cancelWait: (() => void) | undefined;

  constructor(private readonly environment: Environment) {}

  /** Calls `action` once when the environment's monotonic clock has reached `due`. */
  at(due: number, action: () => void): Place {
    const place: Place = { due, id: ++this.#lastId, action };
    const index = this.#indexOf(place);
    this.#places.splice(index, 0, place);
    if (index === 0) this.#wait();
    return place;
  }

  /** Drops the action, where it has not run. */
  cancel(place: Place | undefined): void {
    if (place === undefined) return;
    const index = this.#indexOf(place);
    if (this.#places[index] !== place) return;
    this.#places.splice(index, 1);
    if (index === 0) this.#wait();
  }

  /** How many actions are to come. */
  get size(): number {
    return this.#places.length;
  }

  /** Where it is, or belongs. */
  #indexOf(place: Place): number {
    let low = 0;
    let high = this.#places.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#places[middle];
      if (other !== undefined && before(other, place)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #wait(): void {
    this.#cancelWait?.();
    this.#cancelWait = undefined;
    const first = this.#places[0];
    if (first === undefined) return;
    const left = Math.ceil(first.due - this.environment.monotonicNow());
    this.#cancelWait = this.environment.schedule(
      Math.min(Math.max(left, 0), LONGEST_WAIT),
      () => this.#runDue(),
    );
  }

  #runDue(): void {
    for (;;) {
      const first = this.#places[0];
      if (first === undefined || first.due > this.environment.monotonicNow()) break;
      this.#places.shift();
      first.action();
    }
    this.#wait();
  }
}
