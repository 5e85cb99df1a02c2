/**
 * A strict JSON reader that keeps numbers exact, and the canonical form of RFC 8785 over it.
 *
 * Strict: one value and nothing behind it, no byte order mark, no comments, valid UTF-8, no lone
 * surrogates, no name twice in one object, at most 128 levels and 16 MiB. What two readers could
 * understand differently is refused, because a fingerprint of it would mean nothing.
 *
 * RFC 8785 writes a number as ECMAScript prints the nearest double, which loses digits. Here every
 * digit counts: 1, 1.0, 1e0 and 10e-1 are all 1; 9007199254740993 is not 9007199254740992. The
 * notation is ECMAScript's, so the text is that of RFC 8785 for all numbers that it keeps exact.
 */

export const MAX_JSON_DEPTH = 128;
export const MAX_JSON_BYTES = 16 * 1024 * 1024;

// ECMAScript writes integers up to 21 digits and fractions from 1e-6 on without exponent.
const MAX_PLAIN_INTEGER_DIGITS = 21;
const MAX_PLAIN_FRACTION_ZEROS = 5;
const MAX_EXPONENT_DIGITS = 9;
const MAX_EXPONENT = 999_999_999;

/** The text or the pointer is not one that has a fingerprint. Says where and why, and repeats
 * nothing of the text. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
}

/** A number, by its canonical text. */
class JsonNumber {
  constructor(readonly text: string) {}
}
type JsonValue = null | boolean | string | JsonNumber | JsonValue[] | Map<string, JsonValue>;

/**
 * The canonical text of `json`, without the members that `exclude` names by JSON pointers (RFC
 * 6901). Throws JsonError for JSON that is not as described above, and for a pointer that is
 * malformed, selects everything, or selects an element of an array.
 */
export function canonicalJson(json: string | Uint8Array, exclude: readonly string[] = []): string {
  const document = new Parser(textOf(json)).parse();
  for (const pointer of exclude) removeMember(document, pointer);
  return write(document);
}

function textOf(json: string | Uint8Array): string {
  const bytes = typeof json === 'string' ? Buffer.byteLength(json) : json.byteLength;
  if (bytes > MAX_JSON_BYTES) {
    throw new JsonError(`JSON of ${bytes} bytes; at most ${MAX_JSON_BYTES} are read`);
  }
  if (typeof json === 'string') {
    if (!json.isWellFormed()) throw new JsonError('JSON: half of a surrogate pair is missing');
    return json;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(json);
  } catch {
    throw new JsonError('JSON: this is not UTF-8');
  }
}

// --- Numbers ------------------------------------------------------------------------------------

/** 0.digits * 10^point, as ECMAScript would write it. */
function writeNumber(digits: string, point: number): string {
  const count = digits.length;
  if (count <= point && point <= MAX_PLAIN_INTEGER_DIGITS) {
    return digits + '0'.repeat(point - count);
  }
  if (0 < point && point <= MAX_PLAIN_INTEGER_DIGITS) {
    return `${digits.slice(0, point)}.${digits.slice(point)}`;
  }
  if (-MAX_PLAIN_FRACTION_ZEROS <= point && point <= 0) return `0.${'0'.repeat(-point)}${digits}`;
  const exponent = point - 1;
  const rest = count > 1 ? `.${digits.slice(1)}` : '';
  return `${digits[0]}${rest}e${exponent < 0 ? '-' : '+'}${Math.abs(exponent)}`;
}

const NUMBER = /(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?/y;

/** undefined: an exponent is out of range. */
function canonicalNumber(match: RegExpExecArray): string | undefined {
  const [, minus = '', integer = '', fraction = '', sign = '', exponentText = ''] = match;
  const exponentDigits = exponentText.replace(/^0+/, '');
  if (exponentDigits.length > MAX_EXPONENT_DIGITS) return undefined;
  const exponent = Number(exponentDigits || '0') * (sign === '-' ? -1 : 1);
  const all = integer + fraction;
  const digits = withoutTrailingZeros(all.replace(/^0+/, ''));
  if (digits === '') return '0';
  const leadingZeros = all.search(/[1-9]/);
  const point = integer.length - leadingZeros + exponent;
  if (Math.abs(point - 1) > MAX_EXPONENT) return undefined;
  return minus + writeNumber(digits, point);
}

function withoutTrailingZeros(digits: string): string {
  let end = digits.length;
  while (end > 0 && digits[end - 1] === '0') --end;
  return digits.slice(0, end);
}

// --- Reading ------------------------------------------------------------------------------------

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t',
};
const WORDS: readonly (readonly [string, JsonValue])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
];

class Parser {
  #at = 0;

  constructor(private readonly text: string) {}

  parse(): JsonValue {
    const value = this.#value(0);
    this.#skipSpace();
    if (this.#at < this.text.length) this.#fail('something follows the value; send one value');
    return value;
  }

  #fail(problem: string): never {
    throw new JsonError(`JSON, character ${this.#at}: ${problem}`);
  }

  #take(c: string): boolean {
    if (this.text[this.#at] !== c) return false;
    ++this.#at;
    return true;
  }

  #skipSpace(): void {
    while (' \t\n\r'.includes(this.text[this.#at] ?? 'x')) ++this.#at;
  }

  #value(depth: number): JsonValue {
    this.#skipSpace();
    const first = this.text[this.#at];
    if (first === undefined) this.#fail('the text ends where a value should be');
    if (first === '"') return this.#string();
    if (first === '{' || first === '[') {
      if (depth >= MAX_JSON_DEPTH) this.#fail('nested too deeply');
      return first === '{' ? this.#object(depth) : this.#array(depth);
    }
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    }
    return this.#number();
  }

  #array(depth: number): JsonValue[] {
    const items: JsonValue[] = [];
    this.#take('[');
    this.#skipSpace();
    if (this.#take(']')) return items;
    for (;;) {
      items.push(this.#value(depth + 1));
      this.#skipSpace();
      if (this.#take(']')) return items;
      if (!this.#take(',')) this.#fail("',' or ']' should be here");
    }
  }

  #object(depth: number): Map<string, JsonValue> {
    const members = new Map<string, JsonValue>();
    this.#take('{');
    this.#skipSpace();
    if (this.#take('}')) return members;
    for (;;) {
      this.#skipSpace();
      if (this.text[this.#at] !== '"') this.#fail("a member's name in quotes should be here");
      const name = this.#string();
      if (members.has(name)) this.#fail('this object has two members of one name; send each once');
      this.#skipSpace();
      if (!this.#take(':')) this.#fail("':' should be here");
      members.set(name, this.#value(depth + 1));
      this.#skipSpace();
      if (this.#take('}')) return members;
      if (!this.#take(',')) this.#fail("',' or '}' should be here");
    }
  }

  #number(): JsonNumber {
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.text);
    if (match === null) this.#fail('no JSON value begins so');
    const text = canonicalNumber(match);
    if (text === undefined) this.#fail('this exponent is out of all range');
    this.#at = NUMBER.lastIndex;
    // What the number cannot be continued with: 01, 1., 1e
    if (/[0-9.eE]/.test(this.text[this.#at] ?? '')) this.#fail('this is no number of JSON');
    return new JsonNumber(text);
  }

  #string(): string {
    this.#take('"');
    let out = '';
    for (;;) {
      const c = this.text[this.#at];
      if (c === undefined) this.#fail('the text ends within a string');
      if (c < ' ') this.#fail('a control character must be escaped');
      ++this.#at;
      if (c === '"') break;
      out += c === '\\' ? this.#escape() : c;
    }
    if (!out.isWellFormed()) this.#fail('half of a surrogate pair is missing');
    return out;
  }

  #escape(): string {
    const letter = this.text[this.#at] ?? '';
    if (letter === 'u') {
      const digits = this.text.slice(this.#at + 1, this.#at + 5);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.#fail('four hexadecimal digits should follow \\u');
      this.#at += 5;
      return String.fromCharCode(parseInt(digits, 16));
    }
    const meaning = Object.hasOwn(ESCAPES, letter) ? ESCAPES[letter] : undefined;
    if (meaning === undefined) this.#fail('there is no such escape');
    ++this.#at;
    return meaning;
  }
}

// --- Writing ------------------------------------------------------------------------------------

function write(value: JsonValue): string {
  if (value instanceof JsonNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
  if (value instanceof Map) {
    // Strings of this language sort by UTF-16 code units, as RFC 8785 wants it.
    const names = [...value.keys()].sort((a, b) => (a < b ? -1 : 1));
    const members = names.map((name) => `${write(name)}:${write(value.get(name) ?? null)}`);
    return `{${members.join(',')}}`;
  }
  // For what has no lone surrogates, its escapes are the shortest.
  return JSON.stringify(value);
}

// --- JSON pointers --------------------------------------------------------------------------------

function tokensOf(pointer: string): string[] {
  if (pointer === '') {
    throw new JsonError('exclude: "" is the whole document; name a member of it');
  }
  if (!pointer.startsWith('/') || /~(?![01])/.test(pointer)) {
    throw new JsonError(`exclude: "${pointer}" is no JSON pointer; write it as /name/name`);
  }
  return pointer
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function child(parent: JsonValue | undefined, token: string): JsonValue | undefined {
  if (parent instanceof Map) return parent.get(token);
  if (!Array.isArray(parent) || !/^(0|[1-9][0-9]{0,8})$/.test(token)) return undefined;
  return parent[Number(token)];
}

function removeMember(document: JsonValue, pointer: string): void {
  const tokens = tokensOf(pointer);
  const last = tokens.pop() ?? '';
  let parent: JsonValue | undefined = document;
  for (const token of tokens) parent = child(parent, token);
  if (Array.isArray(parent)) {
    throw new JsonError(`exclude: "${pointer}" is an element of an array; exclude members of objects`);
  }
  if (parent instanceof Map) parent.delete(last);
}
