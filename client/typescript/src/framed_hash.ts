/** Hashes over length-prefixed parts: frame(x) is the length of x in bytes as 8 bytes, big endian,
 * then x. */
import { createHash, createHmac } from 'node:crypto';

export function uint64Bytes(number: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt.asUintN(64, number));
  return bytes;
}

export function uint32Bytes(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  return bytes;
}

/** Text as UTF-8. */
export function frame(part: string | Uint8Array): Buffer {
  const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part;
  return Buffer.concat([uint64Bytes(BigInt(bytes.byteLength)), bytes]);
}

export function frames(...parts: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(parts.map(frame));
}

export function sha256(input: Uint8Array): Buffer {
  return createHash('sha256').update(input).digest();
}

export function hmacSha256(secret: Uint8Array, input: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(input).digest();
}
