/** What every recipe needs to be run and tested, and no service of yours would. */
import assert from 'node:assert/strict';

import { connect } from '@idempotencyd/client';
import type { GrpcConnection } from '@idempotencyd/client';

/** node RECIPE.js [TARGET]: where the service is. */
export function connection(): GrpcConnection {
  return connect({ target: process.argv[2] ?? '127.0.0.1:7420' });
}

export function say(text: string): void {
  console.log(text);
}

/** Ends the program where what the recipe promises does not hold. */
export function require(holds: boolean, what: string): void {
  assert.ok(holds, what);
}
