/** The Idempotency-Key field of draft-ietf-httpapi-idempotency-key-header-07. */

export type KeyProblem =
  /** No such field, or an empty key. */
  | 'MISSING'
  /** More than one field line, or more than one value in it. */
  | 'REPEATED'
  /** Neither a structured string nor plain. */
  | 'MALFORMED'
  | 'TOO_LONG';

export interface KeyFieldOptions {
  /** Bytes of the key (255): at most what the namespace allows. */
  readonly maxBytes?: number | undefined;
  /** Accept keys without quotes, as most clients send them (true). */
  readonly allowRaw?: boolean | undefined;
}

export type KeyField =
  | { readonly key: string; readonly problem: undefined }
  | { readonly key: ''; readonly problem: KeyProblem };

const problem = (what: KeyProblem): KeyField => ({ key: '', problem: what });

// RFC 9651: a String, and behind it parameters, which are checked and ignored.
const STRING = /"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"/;
const NUMBER = /-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})/;
const TOKEN = /[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_`|~:/]*/;
const BYTES = /:[A-Za-z0-9+/=]*:/;
const BARE_ITEM = `(?:${[STRING, TOKEN, BYTES, /\?[01]/, NUMBER].map((part) => part.source).join('|')})`;
const PARAMETERS = `(?:; *[a-z*][a-z0-9_\\-.*]*(?:=${BARE_ITEM})?)*`;
const ITEM = new RegExp(`^(${STRING.source})${PARAMETERS}(?=,|$)`);

const RAW = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/;

/**
 * values: of all field lines of that name, in any order; white space around them is ignored.
 *
 * - structured: a String, "8e03978e" with \" and \\ as the only escapes;
 * - raw: the characters 0x21-0x7E but for " \ , and ; as they are.
 *
 * Both name the same key where their characters are the same: "abc" is abc.
 */
export function parseKeyField(
  values: readonly string[],
  { maxBytes = 255, allowRaw = true }: KeyFieldOptions = {},
): KeyField {
  const [line, ...others] = values;
  if (line === undefined) return problem('MISSING');
  if (others.length > 0) return problem('REPEATED');
  const value = line.replace(/^[ \t]+|[ \t]+$/g, '');
  if (value === '') return problem('MISSING');
  const structured = value.startsWith('"');
  if (!structured && !allowRaw) return problem('MALFORMED');
  const field = structured ? parseStructured(value) : parseRaw(value);
  if (field.problem !== undefined) return field;
  if (field.key === '') return problem('MISSING');
  return Buffer.byteLength(field.key) > maxBytes ? problem('TOO_LONG') : field;
}

function parseStructured(value: string): KeyField {
  const match = ITEM.exec(value);
  const quoted = match?.[1];
  if (match === null || quoted === undefined) return problem('MALFORMED');
  // Field lines that were joined on the way look like a list.
  if (match[0].length < value.length) return problem('REPEATED');
  return { key: quoted.slice(1, -1).replace(/\\(.)/g, '$1'), problem: undefined };
}

function parseRaw(value: string): KeyField {
  if (value.includes(',')) return problem('REPEATED');
  return RAW.test(value) ? { key: value, problem: undefined } : problem('MALFORMED');
}
