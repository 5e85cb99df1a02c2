// A stranger's program on the installed package: one charge, sent twice.
import assert from 'node:assert/strict';

import {
  Client,
  answered,
  bodyText,
  classifierFor,
  connect,
  findProvider,
  fingerprintJson,
  httpAnswer,
  randomKey,
} from '@idempotencyd/client';
import { GetNamespaceRequestSchema, IdempotencyService } from '@idempotencyd/client/proto';

const target = process.argv[2];
assert.ok(target !== undefined, 'usage: consumer.js TARGET');
const connection = connect({ target });
const client = new Client(connection);
const stripe = findProvider('stripe-v1');
const body = JSON.stringify({ amount: 2500 });
const id = { namespace: 'payments', scope: 'acct_1', key: randomKey() };

let charges = 0;
for (const replayed of [false, true]) {
  const result = await client.run(
    { id, fingerprint: fingerprintJson('POST', '/v1/charges', body) },
    (attempt) => {
      assert.equal(attempt.providerKey.length, 43);
      return answered(httpAnswer(201, `charge ${++charges}`));
    },
    { classify: classifierFor(stripe) },
  );
  assert.equal(result.stop, undefined);
  assert.equal(result.replayed, replayed);
  assert.equal(bodyText(result.response), 'charge 1');
}
assert.equal(charges, 1);

const { namespace } = await connection.call(IdempotencyService.method.getNamespace, {
  $typeName: GetNamespaceRequestSchema.typeName,
  name: 'payments',
});
assert.equal(typeof namespace?.retention?.seconds, 'bigint');
connection.close();
