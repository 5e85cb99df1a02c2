/**
 * One active run for each account: whoever comes while it is active is told who has it, and hands over
 * what it came with. The namespace (ACTIVE_RUN) keeps a key only while its run is active.
 */
import { Client, answered, bytesOf, fingerprintBytes, randomKey } from '@idempotencyd/client';
import type { EffectFunction } from '@idempotencyd/client';

import { connection, require, say } from './example.js';

const idempotency = connection();
const client = new Client(idempotency);
const account = randomKey();
// Stands in for the addresses of the runs: where messages for each go.
const inboxes = new Map<string, string[]>();
let runs = 0;

/** Starts a run, or hands `message` to the one that is active. The id of the run. */
async function runOrHandOver(runId: string, message: string, run: EffectFunction): Promise<string> {
  const result = await client.run(
    {
      id: { namespace: 'runs', scope: account, key: 'nightly-import' },
      // One fingerprint for all: they ask for the same thing, whatever they bring.
      fingerprint: fingerprintBytes('RUN', 'nightly-import', ''),
      wait: 0,
      operationRef: runId,
    },
    run,
  );
  if (result.stop === undefined) return runId;
  require(result.stop === 'IN_PROGRESS', `it is active: ${result.detail}`);
  const active = result.operation?.owner.operationRef ?? '';
  inboxes.set(active, [...(inboxes.get(active) ?? []), message]);
  return active;
}

function shortRun() {
  ++runs;
  return answered({ body: bytesOf('imported') });
}

async function longRun() {
  // Two others come while it is at work.
  for (const other of ['run-2', 'run-3']) {
    const active = await runOrHandOver(other, `what ${other} brings`, shortRun);
    say(`${other} hands over to ${active}`);
    require(active === 'run-1', 'duplicates are sent to the active run');
  }
  return shortRun();
}

await runOrHandOver('run-1', '', longRun);
require(runs === 1, 'one run was active');
require(inboxes.get('run-1')?.length === 2, 'it has what the others brought');

const next = await runOrHandOver('run-4', '', shortRun);
say(`afterwards ${next} runs`);
require(next === 'run-4' && runs === 2, 'the key is free when the run has ended');
idempotency.close();
