/**
 * Fingerprints of protobuf messages (sha256/proto-1), as fingerprint.ts makes them of bytes and JSON.
 * Serialized bytes are no basis for one: the order of fields and of map entries is free.
 *
 * The content that is hashed:
 *
 *     content = message, or the 'a' value below for a google.protobuf.Any
 *     message = *field *unknown       by number; fields that are present, extensions among them
 *     field   = number value          number: 4 bytes, big endian
 *     value   = 'i' 8 bytes           int32, int64, sint*, sfixed*, enum: two's complement
 *             | 'u' 8 bytes           uint32, uint64, fixed*
 *             | 'b' 1 byte            bool
 *             | 'f' 4 bytes           float: its bits
 *             | 'd' 8 bytes           double: its bits
 *             | 's' frame             string, bytes
 *             | 'm' frame(message)    a message or group
 *             | 'a' frame(type URL) frame(message)    google.protobuf.Any: what is in it
 *             | 'r' count *value      repeated, packed or not, at least one; count: 8 bytes
 *             | 'p' count *(key value)   a map, at least one entry; in the order of the keys' bytes
 *     unknown = number wire           what the schema does not know, in the order of one number
 *     wire    = 'V' 8 bytes | 'W' 4 bytes | 'X' 8 bytes | 'L' frame | 'G' frame(*unknown)
 *
 * It is read off the wire, and not off the object: JavaScript's numbers do not keep the bits of NaN.
 */
import { createRegistry, ScalarType, toBinary } from '@bufbuild/protobuf';
import type {
  DescExtension,
  DescField,
  DescFile,
  DescMessage,
  MessageShape,
  Registry,
} from '@bufbuild/protobuf';
import { WireType } from '@bufbuild/protobuf/wire';
import * as wkt from '@bufbuild/protobuf/wkt';

import { digestRequest } from './fingerprint.js';
import type { FingerprintOptions } from './fingerprint.js';
import { frame, uint32Bytes, uint64Bytes } from './framed_hash.js';
import { readWire, WireError } from './wire_reader.js';
import type { WireField } from './wire_reader.js';
import type { Fingerprint } from './types.js';

export const MAX_MESSAGE_DEPTH = 100;

/** The message or an exclusion is not one that has a fingerprint. */
export class MessageError extends Error {
  override readonly name = 'MessageError';
}

export interface MessageFingerprintOptions extends FingerprintOptions {
  /** Where types of google.protobuf.Any and extensions are found, besides the files that the
   * schema's own file needs and the well-known types. */
  readonly registry?: Registry | undefined;
}

/**
 * `message`: of protobuf-es, or the serialized bytes. `exclude`: field paths such as "request_id" or
 * "order.items.trace"; through repeated fields and the values of maps they hold for every element.
 * Throws MessageError where a path names no field, where an Any holds what is not known or cannot be
 * read, and over 100 levels.
 */
export function fingerprintMessage<Desc extends DescMessage>(
  method: string,
  resource: string,
  schema: Desc,
  message: MessageShape<Desc> | Uint8Array,
  options: MessageFingerprintOptions = {},
): Fingerprint {
  const bytes = message instanceof Uint8Array ? message : toBinary(schema, message);
  const content = canonicalMessage(schema, bytes, options.exclude, options.registry);
  return digestRequest('proto-1', method, resource, content, options.key);
}

/** The content that is hashed. */
export function canonicalMessage(
  schema: DescMessage,
  bytes: Uint8Array,
  exclude: readonly string[] = [],
  registry?: Registry,
): Uint8Array {
  const excluded = new Excluded();
  for (const path of exclude) addPath(path, schema, excluded);
  const writer = new Writer(typesAround(schema.file, registry));
  try {
    return schema.typeName === ANY ? writer.any(bytes) : writer.message(schema, bytes, excluded);
  } catch (error) {
    if (error instanceof WireError) throw new MessageError(error.message);
    throw error;
  }
}

const ANY = wkt.AnySchema.typeName;

const WELL_KNOWN: readonly DescFile[] = [
  wkt.file_google_protobuf_any,
  wkt.file_google_protobuf_api,
  wkt.file_google_protobuf_duration,
  wkt.file_google_protobuf_empty,
  wkt.file_google_protobuf_field_mask,
  wkt.file_google_protobuf_source_context,
  wkt.file_google_protobuf_struct,
  wkt.file_google_protobuf_timestamp,
  wkt.file_google_protobuf_type,
  wkt.file_google_protobuf_wrappers,
];

function typesAround(file: DescFile, more: Registry | undefined): Registry {
  const files = new Set<DescFile>(WELL_KNOWN);
  const add = (one: DescFile): void => {
    if (files.has(one)) return;
    files.add(one);
    one.dependencies.forEach(add);
  };
  add(file);
  return createRegistry(...files, ...(more === undefined ? [] : [more]));
}

// --- Exclusions -----------------------------------------------------------------------------------

/** Which fields of a type are left out, wholly or in part; by their numbers. */
class Excluded {
  whole = false;
  readonly fields = new Map<number, Excluded>();
}
const NONE = new Excluded();

function addPath(path: string, schema: DescMessage, excluded: Excluded): void {
  let type: DescMessage | undefined = schema;
  let place = excluded;
  for (const name of path.split('.')) {
    if (type === undefined || type.typeName === ANY) {
      throw new MessageError(
        `exclude: "${path}" goes on behind a value that has no fields of its own`,
      );
    }
    const field: DescField | undefined = type.fields.find((one) => one.name === name);
    if (field === undefined) {
      throw new MessageError(`exclude: "${path}" names no field of ${type.typeName}`);
    }
    const next: Excluded = place.fields.get(field.number) ?? new Excluded();
    place.fields.set(field.number, next);
    place = next;
    type = field.message;
  }
  place.whole = true;
}

// --- Values ---------------------------------------------------------------------------------------

type Field = DescField | DescExtension;

/** What one value of a field is: a scalar, an enum, or a message. */
interface Kind {
  readonly scalar: ScalarType | undefined;
  readonly message: DescMessage | undefined;
  readonly field: Field;
}

function kindOf(field: Field): Kind {
  return { scalar: field.scalar, message: field.message, field };
}

function wireTypeOf(kind: Kind): WireType {
  if (kind.message !== undefined) {
    const delimited = 'delimitedEncoding' in kind.field && kind.field.delimitedEncoding;
    return delimited ? WireType.StartGroup : WireType.LengthDelimited;
  }
  switch (kind.scalar) {
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return WireType.Bit32;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return WireType.Bit64;
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return WireType.LengthDelimited;
    default:
      return WireType.Varint;
  }
}

function tagged(tag: string, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(tag, 'latin1'), bytes]);
}

const zigzag = (number: bigint): bigint => (number >> 1n) ^ -(number & 1n);

/** `number`: as it stands on the wire, unsigned. */
function integer(scalar: ScalarType | undefined, number: bigint): Buffer {
  switch (scalar) {
    case ScalarType.BOOL:
      return tagged('b', Uint8Array.of(number === 0n ? 0 : 1));
    case ScalarType.UINT32:
      return tagged('u', uint64Bytes(BigInt.asUintN(32, number)));
    case ScalarType.UINT64:
    case ScalarType.FIXED32:
    case ScalarType.FIXED64:
      return tagged('u', uint64Bytes(number));
    case ScalarType.SINT32:
      return tagged('i', uint64Bytes(zigzag(BigInt.asUintN(32, number))));
    case ScalarType.SINT64:
      return tagged('i', uint64Bytes(zigzag(number)));
    case ScalarType.INT64:
    case ScalarType.SFIXED64:
      return tagged('i', uint64Bytes(number));
    default: // int32, sfixed32, an enum
      return tagged('i', uint64Bytes(BigInt.asIntN(32, number)));
  }
}

function fromLittleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** Elements of a packed field. */
function unpacked(kind: Kind, packed: Uint8Array): WireField[] {
  const wireType = wireTypeOf(kind);
  const width = wireType === WireType.Bit32 ? 4 : 8;
  const elements: WireField[] = [];
  for (let at = 0; at < packed.byteLength; ) {
    let end = at + width;
    if (wireType === WireType.Varint) {
      end = at;
      while ((packed[end] ?? 0) >= 0x80) ++end;
      ++end;
    }
    if (end > packed.byteLength) throw new WireError('the message ends within a packed field');
    // Read again as if each element had a tag (of field 1) of its own.
    const tag = Uint8Array.of((1 << 3) | wireType);
    elements.push(...readWire(Buffer.concat([tag, packed.subarray(at, end)])));
    at = end;
  }
  return elements;
}

// --- Messages -------------------------------------------------------------------------------------

class Writer {
  #depth = 0;

  constructor(private readonly registry: Registry) {}

  /** Its fields alone. */
  message(schema: DescMessage, bytes: Uint8Array, excluded: Excluded): Buffer {
    if (++this.#depth > MAX_MESSAGE_DEPTH) {
      throw new MessageError(`the message has more than ${MAX_MESSAGE_DEPTH} levels`);
    }
    const { known, unknown } = this.#sort(schema, readWire(bytes));
    const out: Uint8Array[] = [];
    for (const [field, occurrences] of [...known].sort((a, b) => a[0].number - b[0].number)) {
      const inside = excluded.fields.get(field.number) ?? NONE;
      const content = inside.whole ? undefined : this.#field(field, occurrences, inside);
      if (content !== undefined) out.push(uint32Bytes(field.number), content);
    }
    out.push(unknownFields(unknown));
    --this.#depth;
    return Buffer.concat(out);
  }

  /** What is in an Any was serialized by somebody, in whatever order: it is read again. */
  any(bytes: Uint8Array): Buffer {
    const any = wireStrings(bytes);
    const url = any.get(1) ?? new Uint8Array();
    const value = any.get(2) ?? new Uint8Array();
    if (url.byteLength === 0 && value.byteLength === 0) {
      return tagged('a', Buffer.concat([frame(''), frame('')]));
    }
    const typeName = new TextDecoder().decode(url).replace(/^.*\//s, '');
    const type = this.registry.getMessage(typeName);
    if (type === undefined) {
      throw new MessageError(
        'a google.protobuf.Any holds a type that is not known here; exclude its field, or give a ' +
          'registry that has the type',
      );
    }
    return tagged('a', Buffer.concat([frame(url), frame(this.message(type, value, NONE))]));
  }

  #sort(schema: DescMessage, all: readonly WireField[]) {
    const known = new Map<Field, WireField[]>();
    const unknown: WireField[] = [];
    for (const one of all) {
      const field =
        schema.fields.find((candidate) => candidate.number === one.number) ??
        this.registry.getExtensionFor(schema, one.number);
      if (field === undefined || !this.#fits(field, one)) {
        unknown.push(one);
        continue;
      }
      // Of a oneof the last one that is set counts.
      for (const other of field.oneof?.fields ?? []) {
        if (other !== field) known.delete(other);
      }
      known.set(field, [...(known.get(field) ?? []), one]);
    }
    return { known, unknown };
  }

  #fits(field: Field, one: WireField): boolean {
    if (field.fieldKind === 'map') return one.type === WireType.LengthDelimited;
    const expected = wireTypeOf(kindOf(field));
    const packable = field.fieldKind === 'list' && expected !== WireType.StartGroup;
    if (one.type !== expected) return packable && one.type === WireType.LengthDelimited;
    const closed = field.enum !== undefined && !field.enum.open;
    return !closed || field.enum.value[Number(BigInt.asIntN(32, one.number64))] !== undefined;
  }

  /** undefined: not present. */
  #field(field: Field, occurrences: readonly WireField[], excluded: Excluded): Buffer | undefined {
    const kind = kindOf(field);
    if (field.fieldKind === 'map') return this.#map(field, occurrences, excluded);
    if (field.fieldKind === 'list') return this.#list(kind, occurrences, excluded);
    const last = occurrences.at(-1);
    if (last === undefined) return undefined;
    if (kind.message !== undefined) {
      // Parts of one message are one message.
      const whole = Buffer.concat(occurrences.map((one) => one.bytes));
      return this.#value(kind, { ...last, bytes: whole }, excluded);
    }
    const implicit = field.presence === wkt.FeatureSet_FieldPresence.IMPLICIT;
    const zero = last.type === WireType.Varint ? this.#isZero(kind, last) : !last.bytes.some(Boolean);
    const empty = last.type === WireType.LengthDelimited ? last.bytes.byteLength === 0 : zero;
    return implicit && empty ? undefined : this.#value(kind, last, excluded);
  }

  #isZero(kind: Kind, one: WireField): boolean {
    return integer(kind.scalar, one.number64).subarray(1).every((byte) => byte === 0);
  }

  #list(kind: Kind, occurrences: readonly WireField[], excluded: Excluded): Buffer | undefined {
    const expected = wireTypeOf(kind);
    const elements = occurrences.flatMap((one) =>
      one.type === expected ? [one] : unpacked(kind, one.bytes),
    );
    if (elements.length === 0) return undefined;
    const values = elements.map((one) => this.#value(kind, one, excluded));
    return tagged('r', Buffer.concat([uint64Bytes(BigInt(values.length)), ...values]));
  }

  #map(
    field: Field & { fieldKind: 'map' },
    occurrences: readonly WireField[],
    excluded: Excluded,
  ): Buffer {
    const keyKind: Kind = { scalar: field.mapKey, message: undefined, field };
    const valueKind = kindOf(field);
    const entries = new Map<string, [key: Buffer, value: Buffer]>();
    for (const occurrence of occurrences) {
      const fields = readWire(occurrence.bytes);
      const parts = (number: number): WireField[] => fields.filter((one) => one.number === number);
      const key = this.#value(keyKind, parts(1).at(-1) ?? zeroOf(keyKind), NONE);
      const values = parts(2);
      const last = values.at(-1) ?? zeroOf(valueKind);
      const merged =
        valueKind.message === undefined
          ? last
          : { ...last, bytes: Buffer.concat(values.map((one) => one.bytes)) };
      entries.set(key.toString('latin1'), [key, this.#value(valueKind, merged, excluded)]);
    }
    const sorted = [...entries.values()].sort(([a], [b]) => Buffer.compare(a, b));
    return tagged('p', Buffer.concat([uint64Bytes(BigInt(sorted.length)), ...sorted.flat()]));
  }

  #value(kind: Kind, one: WireField, excluded: Excluded): Buffer {
    if (kind.message !== undefined) {
      if (kind.message.typeName === ANY) return this.any(one.bytes);
      return tagged('m', frame(this.message(kind.message, one.bytes, excluded)));
    }
    switch (kind.scalar) {
      case ScalarType.STRING:
        if (kind.field.utf8Validation && !isUtf8(one.bytes)) {
          throw new MessageError(`${kind.field.name} is not UTF-8`);
        }
        return tagged('s', frame(one.bytes));
      case ScalarType.BYTES:
        return tagged('s', frame(one.bytes));
      case ScalarType.FLOAT:
        return tagged('f', Buffer.from(one.bytes).reverse());
      case ScalarType.DOUBLE:
        return tagged('d', Buffer.from(one.bytes).reverse());
      default:
        return integer(kind.scalar, one.number64);
    }
  }
}

function zeroOf(kind: Kind): WireField {
  const type = wireTypeOf(kind);
  const width = type === WireType.Bit32 ? 4 : type === WireType.Bit64 ? 8 : 0;
  return { number: 0, type, number64: 0n, bytes: Buffer.alloc(width) };
}

function wireStrings(bytes: Uint8Array): Map<number, Uint8Array> {
  return new Map(readWire(bytes).map((one) => [one.number, one.bytes]));
}

function unknownFields(fields: readonly WireField[]): Buffer {
  // Those of one number keep their order: they may be elements of one list.
  const sorted = [...fields].sort((a, b) => a.number - b.number);
  return Buffer.concat(
    sorted.flatMap((one) => [uint32Bytes(one.number), unknownValue(one)]),
  );
}

function unknownValue(one: WireField): Buffer {
  switch (one.type) {
    case WireType.Varint:
      return tagged('V', uint64Bytes(one.number64));
    case WireType.Bit32:
      return tagged('W', uint32Bytes(Number(fromLittleEndian(one.bytes))));
    case WireType.Bit64:
      return tagged('X', uint64Bytes(fromLittleEndian(one.bytes)));
    case WireType.StartGroup:
      return tagged('G', frame(unknownFields(readWire(one.bytes))));
    default:
      return tagged('L', frame(one.bytes));
  }
}
