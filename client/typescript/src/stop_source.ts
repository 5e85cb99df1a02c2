/** Tells fn to stop, through an AbortSignal, for as long as fn runs. */
import { setMaxListeners } from 'node:events';

import { onAbort } from './on_abort.js';

export class StopSource {
  readonly #controller = new AbortController();
  #requested = false;
  #fnHasEnded = false;

  constructor() {
    // fn may hand it to as many calls as it likes.
    setMaxListeners(0, this.#controller.signal);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get requested(): boolean {
    return this.#requested;
  }

  request(why: string): void {
    if (this.#requested) return;
    this.#requested = true;
    // What fn has left behind is not called any more.
    if (!this.#fnHasEnded) this.#controller.abort(new DOMException(why, 'AbortError'));
  }

  letGoOfFn(): void {
    this.#fnHasEnded = true;
  }

  /** Requests a stop when `signal` is aborted. Returns what ends that. */
  follow(signal: AbortSignal | undefined): () => void {
    const stop = (): void => this.request('the caller cancelled');
    if (signal?.aborted === true) stop();
    return onAbort(signal, stop);
  }
}
