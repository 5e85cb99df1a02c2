/**
 * An outbox: what is to be sent is written in the same transaction as the change it tells of, with a key
 * of its own, and a worker sends it later. The worker takes up many rows with one call (Batch), sends
 * them, and tells of all with another. One that dies before it has noted what it sent leaves the next
 * in doubt; the keys answer that.
 */
import { bytesOf, fingerprintBytes, randomKey } from '@idempotencyd/client';
import type { Command, Connection, OperationId } from '@idempotencyd/client';

import { connection, require, say } from './example.js';

interface Row {
  readonly key: string; // made when the row is written
  readonly message: string;
  sent: boolean;
}

// Stands in for the gateway: it counts, and recognises nothing.
const gateway: string[] = [];

const idOf = (row: Row): OperationId => ({ namespace: 'outbox', scope: 'mail', key: row.key });

/** The same batch again where its answer was lost: the attempt ids are the same, so what was granted
 * comes back as ALREADY_HELD, and nothing of it has been started. */
async function batch(idempotency: Connection, commands: readonly Command[]) {
  for (let tries = 1; ; ++tries) {
    try {
      return await idempotency.batch(commands);
    } catch (error) {
      if (tries === 5) throw error;
    }
  }
}

/** Sends what is not sent. `note`: in life, one transaction on the outbox. */
async function work(idempotency: Connection, rows: readonly Row[], note: (row: Row) => void): Promise<void> {
  const open = rows.filter((row) => !row.sent);
  const reserves = open.map((row) => ({
    reserve: {
      id: idOf(row),
      fingerprint: fingerprintBytes('SEND', 'mail', row.message),
      attemptId: randomKey(),
    },
  }));
  const results = await batch(idempotency, reserves);

  const completes: Command[] = [];
  const done: Row[] = [];
  for (const [index, row] of open.entries()) {
    const result = results[index];
    if (result === undefined || !('reserve' in result)) continue; // the next round
    const { nextStep, lease } = result.reserve;
    if (nextStep === 'USE_RESPONSE') done.push(row);
    if ((nextStep !== 'PROCEED' && nextStep !== 'PROCEED_UNLESS_STARTED') || lease === undefined) continue;
    gateway.push(row.message);
    const response = { body: bytesOf('sent') };
    const { fencingToken } = lease;
    completes.push({ complete: { id: idOf(row), fencingToken, verdict: 'SUCCEEDED', response } });
    done.push(row);
  }
  await batch(idempotency, completes);
  done.forEach(note);
}

const idempotency = connection();
const outbox: Row[] = Array.from({ length: 200 }, (_, i) => ({
  key: randomKey(),
  message: `message ${i}`,
  sent: false,
}));

await work(idempotency, outbox.slice(0, 100), () => undefined); // what it knows dies with it
say(`the first worker sent ${gateway.length} and noted none`);
await work(idempotency, outbox, (row) => (row.sent = true));
say(`the second went over all ${outbox.length}: ${gateway.length} were sent in all`);
require(new Set(gateway).size === outbox.length && gateway.length === outbox.length, 'each is sent once');
require(outbox.every(({ sent }) => sent), 'every row is noted');
idempotency.close();
