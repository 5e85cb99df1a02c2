/**
 * A payment at a bank that recognises a repeated key (namespace bank.keys: RETRY_SAME_KEY). One try
 * gets no answer, though the bank has charged; the process of the next one dies in the middle of its
 * call. The job is done again, with the same key, until there is an answer: one charge.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';

import { Client, answered, bodyText, classifyHttp, failed, fingerprintJson, httpAnswer, randomKey } from '@idempotencyd/client';
import type { Attempt, EffectResult, RunResult } from '@idempotencyd/client';

import { connection, require, say } from './example.js';

/** What is saved with the order before the first try. */
interface Job {
  readonly bank: string;
  readonly key: string;
  readonly body: string;
}

async function charge(job: Job, attempt: Attempt, header: Record<string, string>): Promise<EffectResult> {
  try {
    const response = await fetch(`${job.bank}/charges`, {
      method: 'POST',
      headers: { 'Idempotency-Key': attempt.providerKey, ...header },
      body: job.body,
      signal: attempt.signal, // the lease is lost, or the time is up
    });
    return answered(httpAnswer(response.status, await response.text()));
  } catch {
    // Sent or not, done or not: nobody knows here.
    return failed('DEADLINE_EXCEEDED', 'no answer of the bank');
  }
}

function pay(client: Client, job: Job, header: Record<string, string> = {}): Promise<RunResult> {
  return client.run(
    {
      id: { namespace: 'bank.keys', scope: 'acct_1', key: job.key },
      fingerprint: fingerprintJson('POST', '/charges', job.body),
      leaseDuration: 1_000,
      callTimeout: 500,
    },
    (attempt) => charge(job, attempt, header),
    { classify: classifyHttp },
  );
}

/** Charges once for each key. On demand its answer does not come. */
function makeBank() {
  const charges = new Map<string, string>();
  const server = createServer((request, response) => {
    const key = String(request.headers['idempotency-key']);
    if (!charges.has(key)) charges.set(key, `charge ${charges.size + 1}`);
    server.emit('charged');
    if (request.headers['x-lose-answer'] === undefined) response.writeHead(201).end(charges.get(key));
  });
  return { charges, server };
}

async function story(): Promise<void> {
  const { charges, server } = makeBank();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const bank = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const job: Job = { bank, key: randomKey(), body: '{"amount": 2500}' };
  const idempotency = connection();
  const client = new Client(idempotency);

  const first = await pay(client, job, { 'x-lose-answer': 'yes' });
  say(`no answer: ${first.stop}, ${first.nextStep}`);
  require(first.stop === 'UNRESOLVED' && first.nextStep === 'RESERVE_AGAIN', 'it may be tried again');

  const worker = fork(fileURLToPath(import.meta.url), [process.argv[2] ?? '', JSON.stringify(job)]);
  await once(server, 'charged');
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  say('a worker died while it waited for the bank');

  // The job is still to be done: its lease lapses, and the next one takes it over.
  const last = await pay(client, job);
  say(`then: ${bodyText(last.response)}`);
  require(last.stop === undefined, last.detail);
  require(charges.size === 1 && bodyText(last.response) === 'charge 1', 'one charge, and its answer');
  const again = await pay(client, job);
  require(again.replayed && bodyText(again.response) === 'charge 1', 'whoever asks again gets the same');
  idempotency.close();
  server.close().closeAllConnections();
}

const job = process.argv[3];
if (job === undefined) await story();
else await pay(new Client(connection()), JSON.parse(job) as Job, { 'x-lose-answer': 'yes' });
