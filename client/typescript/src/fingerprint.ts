/**
 * Fingerprints: what the service compares to notice that a key is used for another request.
 *
 * A fingerprint is taken of the request as it goes out: the method, the resource, and the body. What
 * may differ between two tries of one request (a timestamp, a trace id) stays out of it, by
 * `exclude`; whatever else differs makes it another request.
 *
 *     fingerprintBytes('POST', '/v1/charges', body)
 *     fingerprintJson('POST', '/v1/charges', body, {exclude: ['/sent_at', '/meta/trace_id']})
 *     fingerprintMessage('/bank.v1.Bank/Transfer', '', TransferSchema, request)
 *
 * Algorithm and version are part of the result, and a version never changes its meaning:
 *
 *     sha256/bytes-1   the bytes as they are
 *     sha256/jcs-1     JSON, whatever its white space, order, escapes and way to write a number
 *     sha256/proto-1   a protobuf message, whatever the order of its fields (fingerprint_message.ts)
 *     hmac-sha256/...  the same, keyed (FingerprintKey)
 *
 *     digest = SHA-256(input) or HMAC-SHA-256(secret, input)
 *     input  = frame(form) frame(method) frame(resource) frame(content)
 */
import { frames, hmacSha256, sha256 } from './framed_hash.js';
import { canonicalJson } from './json_canonical.js';
import type { Fingerprint } from './types.js';

export const MIN_FINGERPRINT_SECRET_BYTES = 16;
export const MAX_FINGERPRINT_KEY_ID_BYTES = 24;

/**
 * Makes fingerprints that nobody without the secret can check a guess against: for requests of which
 * there are few (an amount, a birthday). Everybody who sends the same operation needs the same
 * secret, for as long as its key is remembered.
 */
export class FingerprintKey {
  readonly id: string;
  // Private also to what prints objects.
  readonly #secret: Uint8Array;

  /** secret: random, at least 16 bytes, better 32. id: names it in the algorithm, at most 24 of
   * [A-Za-z0-9._-]; give a new secret a new id. Throws RangeError otherwise. */
  constructor(secret: Uint8Array, id = '') {
    if (secret.byteLength < MIN_FINGERPRINT_SECRET_BYTES) {
      throw new RangeError(
        `secret: ${secret.byteLength} bytes; use at least ${MIN_FINGERPRINT_SECRET_BYTES} random ones`,
      );
    }
    if (id.length > MAX_FINGERPRINT_KEY_ID_BYTES || !/^[A-Za-z0-9._-]*$/.test(id)) {
      throw new RangeError(
        `id: use at most ${MAX_FINGERPRINT_KEY_ID_BYTES} letters, digits, '.', '_' and '-'`,
      );
    }
    this.#secret = Uint8Array.from(secret);
    this.id = id;
  }

  digest(input: Uint8Array): Uint8Array {
    return hmacSha256(this.#secret, input);
  }
}

export interface FingerprintOptions {
  /** What to leave out: JSON pointers (RFC 6901), or field paths of a message. It is as if the
   * request had no such member. */
  readonly exclude?: readonly string[] | undefined;
  readonly key?: FingerprintKey | undefined;
}

export type FingerprintForm = 'bytes-1' | 'jcs-1' | 'proto-1';

/** For the forms above; the content is what each of them says. */
export function digestRequest(
  form: FingerprintForm,
  method: string,
  resource: string,
  content: string | Uint8Array,
  key?: FingerprintKey,
): Fingerprint {
  const input = frames(form, method, resource, content);
  if (key === undefined) return { algorithm: `sha256/${form}`, digest: sha256(input) };
  const id = key.id === '' ? '' : `:${key.id}`;
  return { algorithm: `hmac-sha256/${form}${id}`, digest: key.digest(input) };
}

/** method and resource are taken as they are: say the same thing in the same way each time. */
export function fingerprintBytes(
  method: string,
  resource: string,
  body: string | Uint8Array,
  key?: FingerprintKey,
): Fingerprint {
  return digestRequest('bytes-1', method, resource, body, key);
}

/** Throws JsonError where the text or an exclusion is not what canonicalJson takes. */
export function fingerprintJson(
  method: string,
  resource: string,
  json: string | Uint8Array,
  options: FingerprintOptions = {},
): Fingerprint {
  const content = canonicalJson(json, options.exclude);
  return digestRequest('jcs-1', method, resource, content, options.key);
}
