/**
 * Joining duplicates: a button that is pressed five times. The first does the work; the others wait on
 * the service, without polling, and get the same answer byte for byte. Who does not want to wait is told
 * that it is in progress, and when to come back.
 */
import { Client, answered, bodyText, bytesOf, fingerprintBytes, randomKey } from '@idempotencyd/client';
import type { RunResult } from '@idempotencyd/client';

import { connection, require, say } from './example.js';

const idempotency = connection();
const client = new Client(idempotency);
const order = randomKey();
let made = 0;
let impatient: RunResult | undefined;

function press(wait: number): Promise<RunResult> {
  return client.run(
    {
      id: { namespace: 'bank.plain', scope: 'acct_1', key: order },
      fingerprint: fingerprintBytes('POST', '/orders', 'one of these'),
      wait,
    },
    async () => {
      impatient = await press(0);
      return answered({ body: bytesOf(`made ${++made}`) });
    },
  );
}

const answers = await Promise.all(Array.from({ length: 5 }, () => press(20_000)));
say(`five answers: ${answers.map(({ response }) => bodyText(response)).join(', ')}`);
say(`who would not wait: ${impatient?.stop}, come back in ${impatient?.retryAfter} ms`);
require(made === 1, 'it was made once');
require(answers.every(({ response }) => bodyText(response) === 'made 1'), 'all got its answer');
require(answers.filter(({ replayed }) => replayed).length === 4, 'four of them as a replay');
require(impatient?.stop === 'IN_PROGRESS', 'who does not wait is told');
idempotency.close();
