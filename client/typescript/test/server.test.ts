/** Against the real service. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';

import {
  CallError,
  Client,
  ConnectionClosed,
  answered,
  bodyText,
  classifyHttp,
  connect,
  failed,
  fingerprintBytes,
  httpAnswer,
  randomKey,
} from '@idempotencyd/client';
import type { GrpcConnection, RunRequest } from '@idempotencyd/client';
import { GetNamespaceRequestSchema, IdempotencyService } from '@idempotencyd/client/proto';
import { create } from '@bufbuild/protobuf';

import { Server } from './support/server.js';

const TOKEN = 'a-token-that-nobody-may-read-0123456789';

let server: Server;
let connection: GrpcConnection;
let client: Client;

before(async () => {
  const everything = { identities: ['token:all'], namespaces: ['*'], roles: ['ADMIN'] };
  server = await Server.start(
    { namespaces: [{ name: 'payments' }], access: [everything] },
    { all: TOKEN },
  );
  connection = connect({ target: server.target, bearerToken: () => TOKEN });
  client = new Client(connection);
});

after(async () => {
  connection.close();
  await server.stop();
});

const request = (key = randomKey(), body = 'charge 100'): RunRequest => ({
  id: { namespace: 'payments', scope: 'acct_1', key },
  fingerprint: fingerprintBytes('POST', '/v1/charges', body),
});
const HTTP = { classify: classifyHttp };

test('what happened once is replayed byte for byte', async () => {
  const charge = request();
  const body = Uint8Array.from({ length: 256 }, (_, i) => i);
  const headers = [['X-Request-Id', 'req_1']] as const;
  const answer = httpAnswer(201, body, { contentType: 'application/octet-stream', headers });
  const first = await client.run(charge, () => answered(answer), HTTP);
  const second = await client.run(charge, () => assert.fail('called again'), HTTP);
  assert.equal(first.replayed, false);
  assert.equal(second.replayed, true);
  assert.equal(second.verdict, 'SUCCEEDED');
  assert.equal(second.response?.httpStatus, 201);
  assert.deepEqual(Buffer.from(second.response?.body ?? []), Buffer.from(body));
  assert.equal(Buffer.from(second.response?.metadata?.[0]?.value ?? []).toString(), 'req_1');
  assert.equal(second.response?.bodySize, 256n);
});

test('duplicates at the same time wait for the one that runs', async () => {
  const charge = request();
  let effects = 0;
  const runs = Array.from({ length: 10 }, () =>
    client.run(charge, () => answered(httpAnswer(200, `effect ${++effects}`)), HTTP),
  );
  const results = await Promise.all(runs);
  assert.equal(effects, 1);
  assert.deepEqual(results.map(({ response }) => bodyText(response)), Array(10).fill('effect 1'));
});

test('another request under the same key is told so', async () => {
  const key = randomKey();
  await client.run(request(key), () => answered(httpAnswer(200)), HTTP);
  const other = await client.run(request(key, 'charge 200'), () => assert.fail('called'), HTTP);
  assert.equal(other.stop, 'MISMATCH');
  assert.equal(other.nextStep, 'USE_OWN_KEY');
});

test('what is unknown stays so until it is reconciled', async () => {
  const charge = request();
  const first = await client.run(charge, () => failed('DEADLINE_EXCEEDED', 'no answer'), HTTP);
  assert.equal(first.stop, 'UNRESOLVED');
  assert.equal(first.nextStep, 'RECONCILE_FIRST');
  const second = await client.run(charge, () => assert.fail('called again'), HTTP);
  assert.equal(second.stop, 'UNRESOLVED');
  const third = await client.run(charge, () => assert.fail('called again'), {
    ...HTTP,
    reconciler: 'test',
    lookUp: () => ({ found: 'HAPPENED', response: httpAnswer(201, 'found'), evidence: 'seen' }),
  });
  assert.equal(bodyText(third.response), 'found');
  assert.equal(third.recordOpen, false);
  assert.equal(third.operation?.state, 'COMPLETE');
});

test('a cancelled run that waits frees what it got', async () => {
  const charge = request();
  const controller = new AbortController();
  const held = client.run(charge, async () => {
    const waiting = client.run(charge, () => assert.fail('called'), { ...HTTP, signal: controller.signal });
    controller.abort();
    assert.equal((await waiting).stop, 'CANCELLED');
    return answered(httpAnswer(200));
  }, HTTP);
  assert.equal((await held).stop, undefined);
  const { operation } = await connection.getOperation({ id: charge.id });
  assert.equal(operation.state, 'COMPLETE');
});

test('fencing tokens are exact, and every verb of the connection works on them', async () => {
  const { id } = request();
  const attemptId = randomKey();
  const fingerprint = fingerprintBytes('POST', '/', '');
  const { lease } = await connection.reserve({ id, fingerprint, attemptId });
  assert.ok(lease !== undefined && typeof lease.fencingToken === 'bigint');
  const again = await connection.reserve({ id, fingerprint, attemptId });
  assert.equal(again.outcome, 'ALREADY_HELD');
  assert.equal(again.lease?.fencingToken, lease.fencingToken);
  await assert.rejects(
    connection.release({ id, fencingToken: 2n ** 53n - 1n }),
    (error) => error instanceof CallError && error.reason === 'UNKNOWN_FENCING_TOKEN',
  );
  const released = await connection.release({ id, fencingToken: lease.fencingToken });
  assert.equal(released.state, 'FREED');
});

test('a batch answers its commands in their order, errors among them', async () => {
  const { id, fingerprint } = request();
  const attemptId = randomKey();
  const results = await connection.batch([
    { reserve: { id, ...(fingerprint && { fingerprint }), attemptId } },
    { release: { id: { ...id, key: 'never reserved' }, fencingToken: 1n } },
    { getOperation: { id } },
  ]);
  const [reserved, missing, got] = results;
  assert.ok(reserved !== undefined && 'reserve' in reserved);
  assert.equal(reserved.reserve.outcome, 'ACQUIRED');
  assert.ok(missing !== undefined && 'error' in missing);
  assert.equal(missing.error.reason, 'OPERATION_NOT_FOUND');
  assert.equal(missing.error.code, 'NOT_FOUND');
  assert.ok(got !== undefined && 'getOperation' in got);
  assert.equal(got.getOperation.operation.state, 'PENDING');
});

test('a refusal names the field at fault', async () => {
  await assert.rejects(
    connection.getOperation({ id: { namespace: 'payments', scope: 'a', key: 'k'.repeat(256) } }),
    (error) =>
      error instanceof CallError &&
      error.code === 'INVALID_ARGUMENT' &&
      error.reason === 'INVALID_FIELD' &&
      error.refusal?.field === 'id.key',
  );
});

test('a text with half of a surrogate pair is refused before it is sent', async () => {
  await assert.rejects(
    connection.getOperation({ id: { namespace: 'payments', scope: 'a', key: 'k\ud800' } }),
    (error) => error instanceof CallError && error.refusal?.field === 'id.key',
  );
});

test('methods without a method of the connection can be called with messages', async () => {
  const { namespace } = await connection.call(
    IdempotencyService.method.getNamespace,
    create(GetNamespaceRequestSchema, { name: 'payments' }),
  );
  assert.equal(namespace?.maxResponseBytes, 1024 * 1024);
  assert.equal(namespace.retention?.seconds, 86_400n);
});

test('who has no token is refused, and starts nothing', async () => {
  const stranger = connect({ target: server.target });
  const result = await new Client(stranger).run(request(), () => assert.fail('called'));
  assert.equal(result.stop, 'REFUSED');
  assert.equal(result.refusal?.reason, 'ACCESS_DENIED');
  stranger.close();
});

test('a bearer token is not sent in plain text over a network', async () => {
  for (const target of ['192.0.2.1:1', '127.example.org:1', 'localhost.example.org:1', 'dns:///h:1', 'ipv4:127.0.0.1:1,192.0.2.1:1']) {
    const exposed = connect({ target, bearerToken: () => TOKEN });
    await assert.rejects(
      exposed.getOperation({ id: request().id }),
      (error) => error instanceof CallError && error.code === 'FAILED_PRECONDITION',
      target,
    );
    exposed.close();
  }
});

test('where nobody listens a run ends with UNAVAILABLE', async () => {
  const nobody = connect({ target: '127.0.0.1:1' });
  const retry = { total: 2_000, maxAttempts: 2 };
  const result = await new Client(nobody).run(request(), () => assert.fail('called'), { retry });
  assert.equal(result.stop, 'UNAVAILABLE');
  nobody.close();
});

test('a connection that was closed says so', async () => {
  const closed = connect({ target: server.target, bearerToken: () => TOKEN });
  closed.close();
  await assert.rejects(
    closed.getOperation({ id: request().id }),
    (error) => error instanceof ConnectionClosed && error.code === 'FAILED_PRECONDITION',
  );
});

test('a run whose connection was closed meanwhile ends at once, and says that its record is open', async () => {
  const closing = connect({ target: server.target, bearerToken: () => TOKEN });
  const settleRetry = { total: 3_600_000, maxAttempts: Infinity };
  const result = await new Client(closing).run(
    request(),
    () => {
      closing.close();
      return answered({ grpcCode: 0 });
    },
    { settleRetry },
  );
  assert.equal(result.stop, undefined);
  assert.equal(result.recordOpen, true);
  assert.match(result.detail, /closed/);
});

test('what prints a client or a connection shows no credential', () => {
  const printed = inspect({ client, connection }, { depth: 20, showHidden: true });
  assert.doesNotMatch(printed, new RegExp(TOKEN));
});
