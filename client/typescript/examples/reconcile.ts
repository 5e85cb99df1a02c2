/**
 * A reconciler: goes over what is unresolved, finds out in the provider's own list what became of each,
 * and settles it. It needs the reconciler's access.
 */
import { CallError, Client, answered, bodyText, bytesOf, failed, fingerprintBytes, randomKey, systemEnvironment } from '@idempotencyd/client';
import type { Connection, Operation, ResolveRequest, RunResult } from '@idempotencyd/client';

import { connection, require, say } from './example.js';

const NAMESPACE = 'bank.plain';
const scope = randomKey();
const idempotency = connection();
const client = new Client(idempotency);
// Stands in for what the provider's own list says.
const records = new Set<string>();

function decide(operation: Operation): ResolveRequest {
  // The etag: settle what was seen, and nothing newer.
  const { id, etag } = operation;
  if (!records.has(id.key)) {
    const reason = "the provider's list does not have it";
    return { id, etag, actor: 'reconciler', reason, resolution: { kind: 'NOT_EXECUTED' } };
  }
  const response = { body: bytesOf('as the provider has it') };
  const resolution = { kind: 'COMPLETED', verdict: 'SUCCEEDED', response } as const;
  return { id, etag, actor: 'reconciler', reason: "the provider's list has it", resolution };
}

/** All that is unresolved in the scope, oldest first. */
async function* unresolved(api: Connection): AsyncGenerator<Operation> {
  let pageToken = '';
  do {
    const page = await api.listOperations({ namespace: NAMESPACE, scope, states: ['UNRESOLVED'], pageToken });
    yield* page.operations;
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
}

/** One round. How many it has settled. */
async function reconcile(api: Connection): Promise<number> {
  let settled = 0;
  for await (const operation of unresolved(api)) {
    try {
      await api.resolve(decide(operation));
      ++settled;
    } catch (error) {
      // NOT_SETTLED: its call may still arrive at the provider. Changed meanwhile, or somebody else at
      // it: the next round sees it as it is then.
      say(`  ${operation.id.key}: ${error instanceof CallError ? error.reason : String(error)}`);
    }
  }
  return settled;
}

const run = (order: string, lost: boolean): Promise<RunResult> =>
  client.run(
    {
      id: { namespace: NAMESPACE, scope, key: order },
      fingerprint: fingerprintBytes('CHARGE', order, '25.00'),
    },
    () => (lost ? failed('DEADLINE_EXCEEDED', 'no answer') : answered({ body: bytesOf('now') })),
  );

// Two calls whose answers never came; one of them happened.
for (const order of ['order-1', 'order-2']) {
  require((await run(order, true)).stop === 'UNRESOLVED', 'it is unresolved');
}
records.add('order-1');

let settled = 0;
for (let round = 1; settled < 2 && round <= 20; ++round) {
  say(`round ${round}`);
  settled += await reconcile(idempotency);
  if (settled < 2) await systemEnvironment().sleep(500);
}
require(settled === 2, 'both are settled');

const happened = await run('order-1', false);
require(happened.replayed && bodyText(happened.response) === 'as the provider has it', 'it is replayed');
const free = await run('order-2', false);
require(!free.replayed && bodyText(free.response) === 'now', 'what did not happen may be done');
say('what happened is replayed, what did not is done now');
idempotency.close();
