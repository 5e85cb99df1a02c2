/** Listening to an AbortSignal that many may listen to. */
import { setMaxListeners } from 'node:events';

/** Calls `listener` when `signal` is aborted (not where it is already). Returns what ends that. One signal
 * for all runs of a process is what it is for, so Node's warning about many listeners is none. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => undefined;
  setMaxListeners(0, signal);
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}
