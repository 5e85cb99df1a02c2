/** Runs of every end, with a key, a body and a token that can be recognised. With --show it prints what
 * a caller could log: each error and each result. */
import { inspect } from 'node:util';

import {
  Client,
  answered,
  classifyHttp,
  connect,
  failed,
  fingerprintBytes,
  httpAnswer,
} from '@idempotencyd/client';
import type { EffectResult, RunOptions, RunRequest } from '@idempotencyd/client';

import { Server } from './server.js';

const TOKEN = 'a-secret-token-0123456789-0123456789';
const BODY = 'a-secret-body';
const show = process.argv.includes('--show');

function say(what: string, value: unknown): void {
  if (show) console.log(what, inspect(value, { depth: 9, breakLength: Infinity }).replaceAll('\n', ' '));
}

const everything = { identities: ['token:all'], namespaces: ['*'], roles: ['ADMIN'] };
const server = await Server.start(
  { namespaces: [{ name: 'payments' }], access: [everything] },
  { all: TOKEN },
);
const connection = connect({ target: server.target, bearerToken: () => TOKEN });
const stranger = connect({ target: server.target, bearerToken: () => `${TOKEN}-of-nobody` });
const nobody = connect({ target: '127.0.0.1:1', bearerToken: () => TOKEN });
const OPTIONS: RunOptions = {
  classify: classifyHttp,
  retry: { total: 1_000, maxAttempts: 2 },
  settleRetry: { total: 1_000, maxAttempts: 2 },
};

const request = (key: string, body = BODY): RunRequest => ({
  id: { namespace: 'payments', scope: 'acct_1', key: `a-secret-key-${key}` },
  fingerprint: fingerprintBytes('POST', '/v1/charges', body),
});

async function run(client: Client, key: string, effect: () => EffectResult, body?: string): Promise<void> {
  try {
    say('result', { ...(await client.run(request(key, body), effect, OPTIONS)), operation: undefined, response: undefined });
  } catch (error) {
    say('error', error);
  }
}

const charged = (): EffectResult => answered(httpAnswer(200, BODY));
const client = new Client(connection);
await run(client, '1', charged);
await run(client, '1', charged);
await run(client, '1', charged, 'another body');
await run(client, '2', () => failed('DEADLINE_EXCEEDED', 'no answer'));
await run(client, '3', () => {
  throw new Error('broken');
});
await run(new Client(stranger), '4', charged);
await run(new Client(nobody), '5', charged);
for (const one of [connection, stranger, nobody]) {
  const options = { timeout: 1_000 };
  const { id } = request('6');
  await one.getOperation({ id }, options).catch((error: unknown) => say('error', error));
  await one
    .complete({ id, fencingToken: 1n, verdict: 'SUCCEEDED', response: httpAnswer(200, BODY) }, options)
    .catch((error: unknown) => say('error', error));
  say('connection', one);
  one.close();
}
await server.stop();
