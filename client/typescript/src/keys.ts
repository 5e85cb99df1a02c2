/**
 * Keys. A key names one operation, so it is made once, saved with what is to be done, and read back
 * for every further try. Never call randomKey where a try is made (inside a retry, at the start of
 * a handler that may run again): each try would then be a new operation.
 *
 * - randomKey: when the operation is born here and can be saved before its first try, as a row of an
 *   outbox, or an order that is just being created.
 * - deriveKey: when a business identifier exists that is the same for every try and different for
 *   every operation ("refund of order 4711", an event's id). Nothing has to be saved.
 * - providerKey: what goes to the provider. Not the caller's key itself, so that keys of two
 *   namespaces or tenants never meet in the provider's account, and nothing that is in a key leaves
 *   the house. `attempt.providerKey` is this.
 */
import { randomBytes } from 'node:crypto';

import { frames, sha256 } from './framed_hash.js';
import type { OperationId } from './types.js';

/** base64url(SHA-256(frame(namespace) frame(scope) frame(key))): 43 of [A-Za-z0-9_-]. */
export function providerKey(id: OperationId): string {
  return sha256(frames(id.namespace, id.scope, id.key)).toString('base64url');
}

/** 128 random bits as 32 lower-case hexadecimal digits. */
export function randomKey(): string {
  return randomBytes(16).toString('hex');
}

/** hex(SHA-256(frame("derive-1") frame(domainLabel) frame(businessId))), 64 digits: always the same
 * for the same two. domainLabel says what is done ("refund-order"): two kinds of operations on one
 * order need two labels. Whoever knows both can compute the key. */
export function deriveKey(domainLabel: string, businessId: string): string {
  return sha256(frames('derive-1', domainLabel, businessId)).toString('hex');
}
