/** The fields of a serialized protobuf message, one after the other, without a schema. */
import { WireType } from '@bufbuild/protobuf/wire';

export class WireError extends Error {
  override readonly name = 'WireError';
}

export interface WireField {
  readonly number: number;
  /** StartGroup for a whole group; EndGroup never. */
  readonly type: WireType;
  /** Varint, Bit32 and Bit64: the value, unsigned. */
  readonly number64: bigint;
  /** What is on the wire: of a group, its fields; of what is length-delimited, its content. */
  readonly bytes: Uint8Array;
}

const MAX_VARINT_BYTES = 10;
const MAX_GROUP_DEPTH = 100;

/** Throws WireError where `bytes` is no message. */
export function readWire(bytes: Uint8Array): WireField[] {
  const reader = new Reader(bytes);
  const fields: WireField[] = [];
  while (!reader.atEnd()) fields.push(reader.field(0));
  return fields;
}

class Reader {
  #at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  atEnd(): boolean {
    return this.#at >= this.bytes.byteLength;
  }

  field(depth: number): WireField {
    const [number, type] = this.#tag();
    const start = this.#at;
    switch (type) {
      case WireType.Varint:
        return { number, type, number64: this.#varint(), bytes: this.#since(start) };
      case WireType.Bit32:
      case WireType.Bit64: {
        const bytes = this.#take(type === WireType.Bit32 ? 4 : 8);
        const number64 = bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
        return { number, type, number64, bytes };
      }
      case WireType.LengthDelimited:
        return { number, type, number64: 0n, bytes: this.#take(Number(this.#varint())) };
      case WireType.StartGroup:
        return { number, type, number64: 0n, bytes: this.#group(number, depth) };
      default:
        throw new WireError('the bytes are no message');
    }
  }

  #tag(): [number: number, type: WireType] {
    const tag = Number(this.#varint());
    const number = Math.floor(tag / 8);
    if (number < 1 || number > 536_870_911) throw new WireError('the bytes are no message');
    return [number, tag % 8];
  }

  #group(number: number, depth: number): Uint8Array {
    if (depth >= MAX_GROUP_DEPTH) throw new WireError('groups are nested too deeply');
    const start = this.#at;
    for (;;) {
      const before = this.#at;
      const [next, type] = this.#tag();
      if (type === WireType.EndGroup) {
        if (next !== number) throw new WireError('the bytes are no message');
        return this.bytes.subarray(start, before);
      }
      this.#at = before;
      this.field(depth + 1);
    }
  }

  #varint(): bigint {
    let value = 0n;
    for (let i = 0; i < MAX_VARINT_BYTES; ++i) {
      const byte = this.bytes[this.#at];
      if (byte === undefined) throw new WireError('the message ends within a field');
      ++this.#at;
      value |= BigInt(byte & 0x7f) << BigInt(7 * i);
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new WireError('the bytes are no message');
  }

  #take(count: number): Uint8Array {
    if (this.#at + count > this.bytes.byteLength) {
      throw new WireError('the message ends within a field');
    }
    this.#at += count;
    return this.bytes.subarray(this.#at - count, this.#at);
  }

  #since(start: number): Uint8Array {
    return this.bytes.subarray(start, this.#at);
  }
}
