/** What a caller without types hands in, where it is clear what is meant: after the effect it is too
 * late to refuse it. */
import type { EffectResult } from './classification.js';
import { bytesOf } from './types.js';
import type { CachedResponse } from './types.js';

/** A text as a body is sent as UTF-8. */
export function mendedResponse(response: CachedResponse): CachedResponse {
  const body: unknown = response.body;
  if (typeof body === 'string') return { ...response, body: bytesOf(body) };
  return body === null ? { ...response, body: undefined } : response;
}

/** What is no time to wait (NaN, or negative) has not been said. */
export function mendedWait(span: number | undefined): number | undefined {
  return typeof span === 'number' && span >= 0 ? span : undefined;
}

export function mendedEffect(effect: EffectResult): EffectResult {
  const { response, retryAfter } = effect;
  return {
    ...effect,
    response: response && mendedResponse(response),
    retryAfter: mendedWait(retryAfter),
  };
}
