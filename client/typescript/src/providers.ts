/**
 * What is known of the idempotency of some providers: where the key goes, what their answers mean,
 * how long they remember a key. The data are client/contracts/*.json, the same for every language;
 * each statement in them says where it was read, when, and whether it was read in the provider's own
 * documents (verified). Check what is not before relying on it.
 *
 *     const stripe = findProvider('stripe-v1');
 *     await client.run(request, fn, {classify: classifierFor(stripe)});
 */
import { byCertainty, classifyHttp } from './classification.js';
import type { Classification, Classifier, Disposition, EffectResult } from './classification.js';
import { CONTRACTS } from './gen/contracts.js';
import type { CachedResponse, UnresolvedCause } from './types.js';

export interface ProviderStatement {
  /** For example "key.max_bytes". */
  readonly about: string;
  readonly says: string;
  readonly basis: 'vendor' | 'second_hand' | 'memory' | 'judgement';
  readonly source?: string;
  /** YYYY-MM-DD: when it was read. */
  readonly date: string;
  /** Only what the vendor says is. */
  readonly verified: boolean;
}

/** Holds where all its conditions do; the first rule of a profile that fits counts. */
export interface AnswerRule {
  /** "409", "4xx" or "400-499"; undefined: any. */
  readonly status?: string;
  /** One of these is providerCode; undefined: whatever it is. */
  readonly codes?: readonly string[];
  /** providerCode was not looked for. */
  readonly code_missing?: boolean;
  readonly header?: string;
  readonly header_value?: string;
  readonly means: Disposition;
  readonly cause?: UnresolvedCause;
  readonly reconcile_first?: boolean;
  readonly why: string;
}

/** As client/contracts/README.md describes it. */
export interface ProviderProfile {
  readonly format: 1;
  readonly name: string;
  readonly provider: string;
  readonly api_version: string;
  readonly key: {
    readonly place: 'none' | 'header' | 'argument' | 'body_field';
    readonly field?: string;
    /** Undefined: not published. */
    readonly max_bytes?: number;
    readonly scope: string;
    readonly endpoints: readonly string[];
  };
  readonly memory: {
    readonly retention_seconds?: number;
    /** How long to count on the provider's memory; undefined: not at all. */
    readonly protection_window_seconds?: number;
    readonly on_expiry: string;
  };
  readonly repeats: {
    readonly replay: string;
    readonly header?: string;
    readonly header_value?: string;
    readonly on_mismatch: string;
    readonly on_concurrent: string;
    readonly look_up: string;
  };
  /** What EffectResult.providerCode has to be; undefined: not needed. */
  readonly provider_code?: string;
  /** Whatever is unknown is not to be attempted again. */
  readonly reconcile_first?: boolean;
  readonly answers: readonly AnswerRule[];
  readonly statements: readonly ProviderStatement[];
}

export type ProviderName = (typeof CONTRACTS)[number]['name'];

const PROFILES: readonly ProviderProfile[] = CONTRACTS;

export function providerNames(): string[] {
  return PROFILES.map((profile) => profile.name).sort();
}

/** Throws RangeError where there is none of that name. */
export function findProvider(name: ProviderName): ProviderProfile {
  const found = PROFILES.find((profile) => profile.name === name);
  if (found === undefined) throw new RangeError(`there is no provider named ${String(name)}`);
  return found;
}

/** certainty first, then the profile's rules where there is an answer with an HTTP status, then
 * classifyHttp. */
export function classifierFor(profile: ProviderProfile): Classifier {
  return (result) => {
    const certain = byCertainty(result) !== undefined;
    const means = (certain ? undefined : byRules(profile, result)) ?? classifyHttp(result);
    const holdBack = profile.reconcile_first === true && means.disposition === 'UNKNOWN';
    return holdBack ? { ...means, reconcileFirst: true } : means;
  };
}

function byRules(profile: ProviderProfile, result: EffectResult): Classification | undefined {
  const status = result.response?.httpStatus;
  if (result.response === undefined || status === undefined) return undefined;
  const response = result.response;
  const rule = profile.answers.find((one) => fits(one, status, response, result.providerCode));
  if (rule === undefined) return undefined;
  return {
    disposition: rule.means,
    cause: rule.cause ?? 'OTHER',
    reconcileFirst: rule.reconcile_first ?? false,
  };
}

function fits(
  rule: AnswerRule,
  status: number,
  response: CachedResponse,
  code: string | undefined,
): boolean {
  const [first, last] = statusRange(rule.status);
  if (status < first || status > last) return false;
  if (rule.code_missing === true && code !== undefined) return false;
  const codes = rule.codes ?? [];
  if (codes.length > 0 && (code === undefined || !codes.includes(code))) return false;
  return rule.header === undefined || hasHeader(response, rule.header, rule.header_value ?? '');
}

function statusRange(status: string | undefined): [first: number, last: number] {
  if (status === undefined) return [100, 599];
  const [from = '', to = from] = status.split('-');
  return [Number(from.replaceAll('x', '0')), Number(to.replaceAll('x', '9'))];
}

function hasHeader(response: CachedResponse, name: string, value: string): boolean {
  return (response.metadata ?? []).some(
    (entry) =>
      entry.name.toLowerCase() === name.toLowerCase() &&
      Buffer.from(entry.value).toString('latin1') === Buffer.from(value).toString('latin1'),
  );
}
