/** 200 parallel runs of 20 keys over a connection that drops and delays replies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client, answered, classifyHttp, connect, fingerprintBytes, httpAnswer, retryUpTo } from '@idempotencyd/client';

import { FlakyProxy } from './support/flaky_proxy.js';
import { Server } from './support/server.js';

const KEYS = 20;
const RUNS = 200;
const PATIENCE = retryUpTo(120_000);
const BACKOFF = { initial: 5, maximum: 250, factor: 2, jitter: 0.5 };

for (const seed of [1, 2]) {
  test(`one effect a key, and nothing is left pending: seed ${seed}`, async (context) => {
    const server = await Server.start({ namespaces: [{ name: 'payments' }] });
    const proxy = await FlakyProxy.start(server.port, {
      seed,
      // All that waits is sent again on the next connection, and fits into most of them.
      cutAfterBytes: 40_000,
      silentMs: 5,
      delayed: 0.1,
      delayMs: 3,
    });
    const connection = connect({ target: proxy.target });
    const direct = connect({ target: server.target });
    context.after(async () => {
      connection.close();
      direct.close();
      await proxy.close();
      await server.stop();
    });
    const client = new Client(connection);
    const effects = new Array<number>(KEYS).fill(0);
    const runs = Array.from({ length: RUNS }, async (_, i) => {
      const key = i % KEYS;
      const result = await client.run(
        {
          id: { namespace: 'payments', scope: 'acct', key: `order-${key}` },
          fingerprint: fingerprintBytes('POST', '/v1/charges', String(key)),
          // However slow the machine is: no lease lapses while its holder cannot get through.
          leaseDuration: 600_000,
          wait: 120_000,
        },
        () => {
          effects[key] = (effects[key] ?? 0) + 1;
          return answered(httpAnswer(200, `charged ${key}`));
        },
        { classify: classifyHttp, retry: PATIENCE, settleRetry: PATIENCE, backoff: BACKOFF },
      );
      assert.equal(result.stop, undefined, `${String(result.stop)}: ${result.detail}`);
      assert.equal(result.recordOpen, false, result.detail);
      assert.equal(Buffer.from(result.response?.body ?? []).toString(), `charged ${key}`);
    });
    await Promise.all(runs);
    assert.deepEqual(effects, new Array<number>(KEYS).fill(1));
    assert.ok(proxy.cuts > 0, 'the connection was never cut');

    const open = await direct.listOperations({
      namespace: 'payments',
      states: ['PENDING', 'UNRESOLVED'],
    });
    assert.deepEqual(open.operations, []);
  });
}
