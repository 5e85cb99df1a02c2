/** What fn is given: one attempt that holds the lease. Lives as long as fn runs. */
import type { OperationId } from './types.js';

export interface Attempt {
  readonly id: OperationId;
  /** From 1. Above 1 an earlier attempt may have had its effect. */
  readonly number: number;
  /** For downstream systems that can refuse an older one; 0n where it runs unprotected. */
  readonly fencingToken: bigint;
  /** The key to send to the provider: the same for every attempt of this operation (keys.ts). */
  readonly providerKey: string;
  /** What an earlier attempt saved. */
  readonly progress: Uint8Array | undefined;

  /** Aborted as soon as the lease is lost, was not renewed in time, callTimeout has passed, or the
   * caller cancelled: begin nothing irreversible any more. Right for `fetch(url, {signal})`. Not
   * aborted any more once fn has ended. */
  readonly signal: AbortSignal;
  /** The same to poll; exact, also where the event loop was held up. */
  shouldStop(): boolean;
  /** What is left of the lease by the own monotonic clock, the safety margin taken off, in
   * milliseconds. */
  remaining(): number;

  /** Under dispatchLater: says that the outbound call starts. It must not start before this has
   * resolved. Where it rejects, let the error through: run then reports that nothing happened.
   * Otherwise it resolves at once. */
  dispatch(): Promise<void>;
  /** Keeps up to 4 KiB for the next attempt. Waits for the service, at most while the lease lasts;
   * rejects with CallError. */
  saveProgress(progress: string | Uint8Array): Promise<void>;
}
