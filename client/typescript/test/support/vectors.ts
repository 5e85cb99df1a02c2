/** The published vectors of the repository (tests/vectors). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The repository's root: what the tests need of it is named by the build that runs them. */
export function sourceDir(): string {
  const dir = process.env['IDEMPOTENCY_SOURCE_DIR'];
  if (dir === undefined) throw new Error('IDEMPOTENCY_SOURCE_DIR is not set: the root of the repository');
  return dir;
}

export const vectorFile = (name: string): string => join(sourceDir(), 'tests/vectors', name);

export function vectors<Shape>(name: string): Shape {
  return JSON.parse(readFileSync(vectorFile(name), 'utf8')) as Shape;
}

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
export const fromHex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'));
