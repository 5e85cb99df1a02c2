/** A connection on which calls are lost or refused as the script says, and that notes what is called. */
import { CallError } from '@idempotencyd/client';
import type { Connection } from '@idempotencyd/client';

import type { Fault } from './script.js';

/** The methods of a Connection that a run uses, by the names of the API. */
const NAMES = {
  reserve: 'Reserve',
  renew: 'Renew',
  complete: 'Complete',
  release: 'Release',
  markUnresolved: 'MarkUnresolved',
  getOperation: 'GetOperation',
  resolve: 'ResolveOperation',
} as const;

const lost = (): CallError => new CallError('UNAVAILABLE', 'lost on the way');

export interface Faulty {
  readonly connection: Connection;
  /** Without Renew, which comes when it comes. */
  readonly calls: string[];
}

export function faulty(real: Connection, faults: readonly Fault[]): Faulty {
  const left = faults.map((fault) => ({ ...fault }));
  const calls: string[] = [];

  async function call<Answer>(name: string, send: () => Promise<Answer>): Promise<Answer> {
    if (name !== 'Renew') calls.push(name);
    const fault = left.find((one) => one.method === name && one.times > 0);
    if (fault === undefined) return send();
    --fault.times;
    if (fault.kind === 'refuse') {
      const { code = 'UNKNOWN', reason, retry_after_ms: retryAfter } = fault;
      const refusal = reason && { reason, field: '', retryAfter };
      throw new CallError(code, 'refused by the script', refusal);
    }
    if (fault.kind === 'lose_reply') await send().catch(() => undefined);
    throw lost();
  }

  const connection: Connection = {
    reserve: (request, options) => call(NAMES.reserve, () => real.reserve(request, options)),
    renew: (request, options) => call(NAMES.renew, () => real.renew(request, options)),
    complete: (request, options) => call(NAMES.complete, () => real.complete(request, options)),
    release: (request, options) => call(NAMES.release, () => real.release(request, options)),
    markUnresolved: (request, options) =>
      call(NAMES.markUnresolved, () => real.markUnresolved(request, options)),
    getOperation: (request, options) =>
      call(NAMES.getOperation, () => real.getOperation(request, options)),
    resolve: (request, options) => call(NAMES.resolve, () => real.resolve(request, options)),
    listOperations: (request, options) => real.listOperations(request, options),
    batch: (commands, options) => real.batch(commands, options),
  };
  return { connection, calls };
}
