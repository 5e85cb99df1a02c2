/** run() against a connection and a clock that the test decides: exact delays and counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { CallError, Client, ConnectionClosed, Stopped, answerOf, answered, bytesOf, connect, failed, httpAnswer, nothingHappened } from '@idempotencyd/client';
import type { Attempt, EffectResult, RunOptions, RunRequest, RunResult } from '@idempotencyd/client';

import {
  FakeConnection,
  OPERATION,
  acquired,
  inTurn,
  lease,
  lost,
  refused,
  renewed,
} from './support/fake_connection.js';
import { ManualEnvironment, settled } from './support/manual_environment.js';
import { reserveOf } from './support/next_steps.js';
import type { NextStepRow, NextSteps } from './support/next_steps.js';
import { vectors } from './support/vectors.js';

const ID = OPERATION.id;
const ANSWER = answered({ grpcCode: 0, body: bytesOf('done') });

class Fixture {
  readonly connection: FakeConnection;
  readonly environment = new ManualEnvironment();
  readonly client: Client;
  calls = 0;

  constructor(script: FakeConnection['script'] = {}) {
    this.connection = new FakeConnection(script);
    this.client = new Client(this.connection, this.environment);
  }

  run(
    effect: EffectResult | ((attempt: Attempt) => EffectResult | Promise<EffectResult>) = ANSWER,
    options: RunOptions = {},
    request: Partial<RunRequest> = {},
  ): Promise<RunResult> {
    return this.client.run(
      { id: ID, ...request },
      (attempt) => {
        ++this.calls;
        return typeof effect === 'function' ? effect(attempt) : effect;
      },
      options,
    );
  }
}

// --- Each answer of Reserve (tests/vectors/next_steps.json) ---------------------------------------

const NEXT_STEP_ROWS = vectors<NextSteps>('next_steps.json').rows;
const answerTo = (row: NextStepRow) => ({
  ...reserveOf(row),
  lease: row.may_start ? lease() : undefined,
});

test('a run that does not wait ends as the row says', async () => {
  for (const row of NEXT_STEP_ROWS) {
    const answered = answerTo(row);
    const fixture = new Fixture({ reserve: inTurn(answered) });
    const result = await fixture.run(ANSWER, {}, { wait: 0 });
    assert.equal(result.stop, row.stop ?? undefined, row.name);
    assert.equal(result.replayed, row.action === 'return_response', row.name);
    assert.deepEqual(fixture.environment.slept, [], row.name);
    assert.equal(fixture.calls, row.may_start ? 1 : 0, row.name);
    const methods = row.may_start ? ['reserve', 'complete'] : ['reserve'];
    assert.deepEqual(fixture.connection.methods(), methods, row.name);
    if (row.may_start) {
      assert.deepEqual(result.response, ANSWER.response, row.name);
      continue;
    }
    // One that is not known is STOP.
    const known = typeof row.next_step === 'string';
    assert.equal(result.nextStep, known ? answered.nextStep : 'STOP', row.name);
    assert.equal(result.verdict, row.verdict ?? 'UNSPECIFIED', row.name);
    assert.equal(result.retryAfter, row.retry_after_ms, row.name);
    const kept = answered.operation?.response;
    assert.deepEqual(result.response, row.stop === null ? (kept ?? {}) : undefined, row.name);
  }
});

test('it asks again under a new id where the row says so, and only there', async () => {
  for (const row of NEXT_STEP_ROWS) {
    const fixture = new Fixture({ reserve: inTurn(answerTo(row), acquired()) });
    const result = await fixture.run();
    const ids = fixture.connection.requests('reserve').map((one) => (one as { attemptId: string }).attemptId);
    assert.equal(new Set(ids).size, row.new_attempt_id ? 2 : 1, row.name);
    assert.equal(ids.length, row.new_attempt_id ? 2 : 1, row.name);
    if (row.new_attempt_id) {
      assert.equal(result.stop, undefined, row.name);
      const [slept = -1] = fixture.environment.slept;
      assert.ok(slept >= (row.retry_after_ms ?? 0), row.name);
    } else {
      assert.equal(result.stop, row.stop ?? undefined, row.name);
    }
  }
});

test('nothing is started without a grant, and nothing replayed without a record', async () => {
  const answers = {
    'a grant without a lease': { ...acquired(), lease: undefined },
    'a lease without a grant': { ...acquired(), outcome: 'IN_PROGRESS' },
    'an answer without a record': {
      ...acquired(),
      outcome: 'COMPLETED',
      nextStep: 'USE_RESPONSE',
      lease: undefined,
      operation: undefined,
    },
  } as const;
  for (const [name, answer] of Object.entries(answers)) {
    const fixture = new Fixture({ reserve: inTurn(answer) });
    const result = await fixture.run();
    assert.equal(result.stop, 'REFUSED', name);
    assert.equal(result.nextStep, 'STOP', name);
    assert.equal(fixture.calls, 0, name);
    assert.deepEqual(fixture.connection.methods(), ['reserve'], name);
  }
});

// --- Before the effect ----------------------------------------------------------------------------

test('a lost answer to Reserve is asked for with the same attempt id, and ALREADY_HELD proceeds', async () => {
  const held = { ...acquired(), outcome: 'ALREADY_HELD', nextStep: 'PROCEED_UNLESS_STARTED' } as const;
  const fixture = new Fixture({ reserve: inTurn(lost(), lost(), held) });
  const result = await fixture.run();
  assert.equal(result.stop, undefined);
  assert.equal(fixture.calls, 1);
  const ids = fixture.connection.requests('reserve').map((one) => (one as { attemptId: string }).attemptId);
  assert.equal(ids.length, 3);
  assert.equal(new Set(ids).size, 1);
  assert.deepEqual(fixture.environment.slept, [50, 100]);
});

test('each further Reserve has an attempt id of its own', async () => {
  const busy = { ...acquired(), outcome: 'IN_PROGRESS', nextStep: 'RESERVE_AGAIN', lease: undefined, retryAfter: 800 } as const;
  const fixture = new Fixture({ reserve: inTurn(busy, busy, acquired()) });
  assert.equal((await fixture.run()).stop, undefined);
  const ids = fixture.connection.requests('reserve').map((one) => (one as { attemptId: string }).attemptId);
  assert.equal(new Set(ids).size, 3);
  assert.deepEqual(fixture.environment.slept, [800, 800]);
});

test('whoever does not wait is told at once that it is in progress', async () => {
  const busy = { ...acquired(), outcome: 'IN_PROGRESS', nextStep: 'RESERVE_AGAIN', lease: undefined, retryAfter: 800 } as const;
  const fixture = new Fixture({ reserve: inTurn(busy) });
  const result = await fixture.run(ANSWER, {}, { wait: 0 });
  assert.equal(result.stop, 'IN_PROGRESS');
  assert.equal(result.nextStep, 'RESERVE_AGAIN');
  assert.equal(result.retryAfter, 800);
  assert.equal(fixture.calls, 0);
});

test('the patience for Reserve comes on top of the wait, and each try may wait for what is left of it', async () => {
  const fixture = new Fixture({ reserve: inTurn<never>(lost()) });
  const begin = fixture.environment.now;
  const backoff = { initial: 1_000, maximum: 1_000, factor: 1, jitter: 0 };
  await fixture.run(ANSWER, { backoff, retry: { total: 3_500, maxAttempts: Infinity } }, { wait: 2_000 });
  assert.equal(fixture.environment.now - begin, 5_000);
  const waits = fixture.connection.requests('reserve').map((one) => (one as { waitDuration: number }).waitDuration);
  assert.deepEqual(waits, [2_000, 1_000, 0, 0, 0, 0]);
  const timeouts = fixture.connection.calls.map(({ options }) => options.timeout);
  assert.deepEqual(timeouts, [7_500, 5_500, 3_500, 2_500, 1_500, 1_000]);
});

test('a service that is overloaded is asked again when it says, and not before', async () => {
  const overloaded = refused('RESOURCE_EXHAUSTED', 'OVERLOADED', 700);
  const fixture = new Fixture({ reserve: inTurn(overloaded, overloaded, acquired()) });
  assert.equal((await fixture.run()).stop, undefined);
  assert.deepEqual(fixture.environment.slept, [700, 700]);
});

test('where the service cannot be reached nothing is started', async () => {
  const fixture = new Fixture({ reserve: inTurn<never>(lost()) });
  const result = await fixture.run();
  assert.equal(result.stop, 'UNAVAILABLE');
  assert.equal(result.nextStep, 'RESERVE_AGAIN');
  assert.equal(fixture.calls, 0);
});

test('where the service cannot be reached, who says so goes on without protection', async () => {
  const fixture = new Fixture({ reserve: inTurn<never>(lost()) });
  const result = await fixture.run(ANSWER, { allowUnprotected: true });
  assert.equal(result.stop, undefined);
  assert.equal(result.unprotected, true);
  assert.equal(fixture.calls, 1);
  assert.equal(fixture.environment.scheduled, 0);
});

test('a refusal stops also where running without protection is allowed', async () => {
  const fixture = new Fixture({ reserve: inTurn<never>(refused('PERMISSION_DENIED', 'ACCESS_DENIED')) });
  const result = await fixture.run(ANSWER, { allowUnprotected: true });
  assert.equal(result.stop, 'REFUSED');
  assert.equal(result.refusal?.reason, 'ACCESS_DENIED');
  assert.equal(fixture.calls, 0);
});

test('a next step of the future starts nothing', async () => {
  const future = { ...acquired(), outcome: 'UNKNOWN', nextStep: 'UNKNOWN' } as const;
  const result = await new Fixture({ reserve: inTurn(future) }).run();
  assert.equal(result.stop, 'REFUSED');
  assert.equal(result.nextStep, 'STOP');
});

for (const [name, request, options, field] of [
  ['no namespace', { id: { ...ID, namespace: '' } }, {}, 'id.namespace'],
  ['no key', { id: { ...ID, key: '' } }, {}, 'id.key'],
  ['a negative wait', { wait: -1 }, {}, 'wait'],
  ['a lease of nothing', { leaseDuration: 0 }, {}, 'leaseDuration'],
  ['a time of nothing', { callTimeout: 0 }, {}, 'callTimeout'],
  ['a call longer than the lease, without renewal', { callTimeout: 20, leaseDuration: 10 }, { renew: false }, 'callTimeout'],
] as const) {
  test(`${name} is refused up front`, async () => {
    const fixture = new Fixture();
    const result = await fixture.run(ANSWER, options, request);
    assert.equal(result.stop, 'INVALID');
    assert.match(result.detail, new RegExp(`^${field}:`));
    assert.deepEqual(fixture.connection.methods(), []);
  });
}

test('a call longer than the lease that is granted, without renewal, frees the key', async () => {
  const fixture = new Fixture();
  const result = await fixture.run(ANSWER, { renew: false }, { callTimeout: 30_001 });
  assert.equal(result.stop, 'INVALID');
  assert.equal(fixture.calls, 0);
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'release']);
});

test('a grant that was waited for is renewed before the start', async () => {
  const fixture = new Fixture({
    reserve: async () => {
      await fixture.environment.advance(251);
      return acquired();
    },
  });
  assert.equal((await fixture.run()).stop, undefined);
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'renew', 'complete']);
});

test('the lease is counted from before Reserve was sent', async () => {
  const fixture = new Fixture({
    reserve: async () => {
      await fixture.environment.advance(5_000);
      return acquired(10_000);
    },
  });
  let remaining = 0;
  await fixture.run(
    (attempt) => {
      remaining = attempt.remaining();
      return ANSWER;
    },
    {},
    { wait: 0 },
  );
  assert.equal(remaining, 10_000 - 1_000 - 5_000);
});

// --- While fn runs --------------------------------------------------------------------------------

test('the lease is renewed in the background when half of what can be relied on has gone', async () => {
  const fixture = new Fixture();
  await fixture.run(async (attempt) => {
    await fixture.environment.advance(13_499);
    assert.equal(fixture.connection.requests('renew').length, 0);
    await fixture.environment.advance(1);
    assert.equal(fixture.connection.requests('renew').length, 1);
    assert.equal(attempt.remaining(), 27_000);
    await fixture.environment.advance(13_500);
    assert.equal(attempt.shouldStop(), false);
    return ANSWER;
  });
  assert.equal(fixture.connection.requests('renew').length, 2);
  assert.equal(fixture.environment.scheduled, 0);
});

test('a lease that is lost is told through the signal', async () => {
  const fixture = new Fixture({ renew: inTurn<never>(refused('FAILED_PRECONDITION', 'LEASE_LAPSED')) });
  let told = false;
  await fixture.run(async (attempt) => {
    attempt.signal.addEventListener('abort', () => (told = true));
    await fixture.environment.advance(13_500);
    assert.equal(attempt.shouldStop(), true);
    return failed('CANCELLED', 'stopped');
  });
  assert.equal(told, true);
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'renew', 'markUnresolved']);
});

test('renewals that fail are tried again until the lease is over, which is told', async () => {
  const fixture = new Fixture({ renew: inTurn<never>(lost()) });
  await fixture.run(async (attempt) => {
    await fixture.environment.advance(26_999);
    assert.equal(attempt.signal.aborted, false);
    await fixture.environment.advance(1);
    assert.equal(attempt.signal.aborted, true);
    return ANSWER;
  });
  assert.ok(fixture.connection.requests('renew').length > 3);
});

test('the time of the call is told through the signal, and the lease goes on', async () => {
  const fixture = new Fixture();
  const result = await fixture.run(
    async (attempt) => {
      await fixture.environment.advance(5_000);
      assert.equal(attempt.signal.aborted, true);
      return failed('DEADLINE_EXCEEDED', 'no answer');
    },
    {},
    { callTimeout: 5_000 },
  );
  assert.equal(result.stop, 'UNRESOLVED');
});

test('one timer serves all that run', async () => {
  const fixture = new Fixture();
  const gates: (() => void)[] = [];
  const runs = Array.from({ length: 100 }, () =>
    fixture.run(async () => {
      await new Promise<void>((resolve) => gates.push(resolve));
      return ANSWER;
    }),
  );
  await settled();
  assert.equal(gates.length, 100);
  assert.equal(fixture.environment.scheduled, 1);
  await fixture.environment.advance(13_500);
  assert.equal(fixture.connection.requests('renew').length, 100);
  gates.forEach((open) => open());
  await Promise.all(runs);
  assert.equal(fixture.environment.scheduled, 0);
});

test('dispatch is told before the call, and a refusal of it leaves the key free', async () => {
  const fixture = new Fixture({ renew: inTurn<never>(refused('FAILED_PRECONDITION', 'LEASE_LAPSED')) });
  let sent = false;
  const result = await fixture.run(
    async (attempt) => {
      await attempt.dispatch();
      sent = true;
      return ANSWER;
    },
    {},
    { dispatchLater: true },
  );
  assert.equal(sent, false);
  assert.equal(result.stop, 'NOTHING_HAPPENED');
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'renew', 'release']);
});

test('without protection, too, a refused dispatch is let through as nothing that happened', async () => {
  const fixture = new Fixture({ reserve: inTurn<never>(lost()) });
  const cancelled = new AbortController();
  const classify = () => assert.fail('asked what an effect means that was not started');
  const result = await fixture.run(
    async (attempt) => {
      cancelled.abort();
      await attempt.dispatch();
      return ANSWER;
    },
    { allowUnprotected: true, signal: cancelled.signal, classify },
    { dispatchLater: true },
  );
  assert.equal(result.stop, 'NOTHING_HAPPENED');
  assert.equal(result.unprotected, true);
  assert.equal(result.effectError?.code, 'CANCELLED');
});

test('without protection, what was dispatched and then got no answer is unknown', async () => {
  const fixture = new Fixture({ reserve: inTurn<never>(lost()) });
  const result = await fixture.run(
    async (attempt) => {
      await attempt.dispatch();
      return failed('DEADLINE_EXCEEDED', 'no answer');
    },
    { allowUnprotected: true },
    { dispatchLater: true },
  );
  assert.equal(result.stop, 'UNRESOLVED');
});

test('progress is kept for the next attempt', async () => {
  const fixture = new Fixture({
    reserve: inTurn({ ...acquired(), lease: { ...lease(), attempt: 2, progress: bytesOf('half') } }),
  });
  await fixture.run(async (attempt) => {
    assert.equal(Buffer.from(attempt.progress ?? []).toString(), 'half');
    assert.equal(attempt.number, 2);
    await attempt.saveProgress('more');
    return ANSWER;
  });
  const [renewal] = fixture.connection.requests('renew') as { progress: Uint8Array }[];
  assert.equal(Buffer.from(renewal?.progress ?? []).toString(), 'more');
});

// --- After the effect -----------------------------------------------------------------------------

test('a charge whose answer is a text, as without types, is recorded as bytes', async () => {
  const fixture = new Fixture();
  const result = await fixture.run(answered({ grpcCode: 0, body: 'charged' as never }));
  const [complete] = fixture.connection.requests('complete') as { response: { body: Uint8Array } }[];
  assert.deepEqual(complete?.response.body, bytesOf('charged'));
  assert.deepEqual(result.response?.body, bytesOf('charged'));
});

test('a time to come back that is none does not keep an unknown outcome from being recorded', async () => {
  for (const retryAfter of [Number('Wed, 21 Oct 2026 07:28:00 GMT'), -1]) {
    const fixture = new Fixture();
    await fixture.run(failed('UNAVAILABLE', 'busy', { retryAfter }));
    const [mark] = fixture.connection.requests('markUnresolved') as { retryAfter: unknown }[];
    assert.equal(mark?.retryAfter, undefined);
  }
});

test('what cannot be made a message is refused before it is sent, and not worth another try', async () => {
  const { id } = OPERATION;
  const connection = connect({ target: '127.0.0.1:1' });
  const impossible = [
    () => connection.complete({ id, fencingToken: 'seven' as never, verdict: 'SUCCEEDED' }),
    () => connection.complete({ id, fencingToken: 7n, verdict: 'SUCCEEDED', response: { httpStatus: 'OK' as never } }),
    () => connection.renew({ id, fencingToken: 7n, leaseDuration: NaN }),
  ];
  for (const call of impossible) {
    await assert.rejects(call, (error) => error instanceof CallError && error.refusal?.reason === 'INVALID_FIELD');
  }
  const mended = connection.markUnresolved({ id, fencingToken: 7n, retryAfter: NaN }, { timeout: 0 });
  await assert.rejects(mended, (error) => error instanceof CallError && error.refusal === undefined);
  const text = { httpStatus: 200, body: 'charged' as never };
  const texts = connection.complete({ id, fencingToken: 7n, verdict: 'SUCCEEDED', response: text }, { timeout: 0 });
  await assert.rejects(texts, (error) => error instanceof CallError && error.refusal === undefined);
  connection.close();
});

test('what happened is told until it is acknowledged, whatever stands in between says', async () => {
  const between = new CallError('INTERNAL', 'a proxy');
  const script = { complete: inTurn<Awaited<ReturnType<FakeConnection['complete']>>>(lost(), between, lost(), {
    operation: OPERATION,
    alreadyComplete: true,
  }) };
  const fixture = new Fixture(script);
  const result = await fixture.run();
  assert.equal(result.recordOpen, false);
  assert.equal(fixture.connection.requests('complete').length, 4);
  assert.deepEqual(fixture.environment.slept, [50, 100, 200]);
});

test('where recording fails the caller gets the real answer, and is told that the record is open', async () => {
  const fixture = new Fixture({ complete: inTurn<never>(lost()) });
  const result = await fixture.run(ANSWER, { settleRetry: { total: 60_000, maxAttempts: Infinity } });
  assert.equal(result.stop, undefined);
  assert.deepEqual(result.response, ANSWER.response);
  assert.equal(result.recordOpen, true);
});

test('a final refusal of the record is told once, with its reason', async () => {
  const stale = refused('FAILED_PRECONDITION', 'STALE_FENCING_TOKEN');
  const fixture = new Fixture({ complete: inTurn<never>(stale) });
  const result = await fixture.run();
  assert.equal(fixture.connection.requests('complete').length, 1);
  assert.equal(result.stop, undefined);
  assert.equal(result.recordOpen, true);
  assert.equal(result.refusal?.reason, 'STALE_FENCING_TOKEN');
});

test('the lease is renewed while the result is being reported', async () => {
  const fixture = new Fixture({
    complete: async () => {
      await fixture.environment.advance(20_000);
      return { operation: OPERATION, alreadyComplete: false };
    },
  });
  await fixture.run();
  assert.equal(fixture.connection.requests('renew').length, 1);
});

test('an exception is an unknown outcome, is recorded, and goes on to the caller', async () => {
  const fixture = new Fixture({ markUnresolved: inTurn<never>(lost(), refused('FAILED_PRECONDITION', 'ALREADY_COMPLETE')) });
  const thrown = new Error('broken');
  await assert.rejects(fixture.run(() => Promise.reject(thrown)), (error) => error === thrown);
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'markUnresolved', 'markUnresolved']);
  assert.equal(fixture.environment.scheduled, 0);
});

test('an exception of the classifier or the look-up is one, too', async () => {
  for (const options of [
    { classify: () => { throw new RangeError('mine'); } },
    { lookUp: () => { throw new RangeError('mine'); } },
  ] as RunOptions[]) {
    const fixture = new Fixture();
    await assert.rejects(fixture.run(failed('UNKNOWN', ''), options), RangeError);
    assert.deepEqual(fixture.connection.methods(), ['reserve', 'markUnresolved']);
  }
});

test('an exception before the dispatch frees the key', async () => {
  const fixture = new Fixture();
  await assert.rejects(
    fixture.run(() => Promise.reject(new Error('early')), {}, { dispatchLater: true }),
  );
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'release']);
});

test('what certainly did not happen frees the key', async () => {
  const fixture = new Fixture();
  const result = await fixture.run(nothingHappened('no connection was made'));
  assert.equal(result.stop, 'NOTHING_HAPPENED');
  assert.equal(result.nextStep, 'RESERVE_AGAIN');
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'release']);
});

test('an own timeout is looked up, and what is found is recorded', async () => {
  const fixture = new Fixture();
  const response = httpAnswer(201, 'found');
  const result = await fixture.run(failed('DEADLINE_EXCEEDED', 'no answer'), {
    lookUp: () => ({ found: 'HAPPENED', response, providerRequestId: 'req_1' }),
  });
  assert.equal(result.stop, undefined);
  assert.deepEqual(result.response, response);
  const [complete] = fixture.connection.requests('complete') as { providerRequestId: string }[];
  assert.equal(complete?.providerRequestId, 'req_1');
});

test('who wants exceptions gets the answer, or what stopped it, without the key', async () => {
  assert.deepEqual(answerOf(await new Fixture().run()), ANSWER.response);
  const stopped = await new Fixture().run(failed('DEADLINE_EXCEEDED', 'no answer'));
  assert.throws(() => answerOf(stopped), (error) => {
    assert.ok(error instanceof Stopped);
    assert.equal(error.reason, 'UNRESOLVED');
    assert.equal(error.nextStep, 'RECONCILE_FIRST');
    assert.equal(error.result, stopped);
    assert.doesNotMatch(inspect(error, { depth: 9 }), new RegExp(ID.key));
    return true;
  });
});

// --- Cancellation ---------------------------------------------------------------------------------

test('a run that is cancelled before it begins calls nobody', async () => {
  const fixture = new Fixture();
  const result = await fixture.run(ANSWER, { signal: AbortSignal.abort() });
  assert.equal(result.stop, 'CANCELLED');
  assert.deepEqual(fixture.connection.methods(), []);
});

test('a run that is cancelled while Reserve waits asks once more, and gives back what it got', async () => {
  const controller = new AbortController();
  const fixture = new Fixture({
    reserve: (request) => {
      if ((request.waitDuration ?? 0) === 0) return acquired();
      controller.abort();
      throw new CallError('CANCELLED', 'given up');
    },
  });
  const result = await fixture.run(ANSWER, { signal: controller.signal });
  assert.equal(result.stop, 'CANCELLED');
  assert.equal(result.recordOpen, false);
  assert.equal(fixture.calls, 0);
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'reserve', 'release']);
});

test('what happened is settled though the caller has gone', async () => {
  const controller = new AbortController();
  const fixture = new Fixture({
    complete: inTurn<Awaited<ReturnType<FakeConnection['complete']>>>(lost(), lost(), {
      operation: OPERATION,
      alreadyComplete: false,
    }),
  });
  const result = await fixture.run(
    (attempt) => {
      controller.abort();
      assert.equal(attempt.signal.aborted, true);
      return ANSWER;
    },
    { signal: controller.signal },
  );
  assert.equal(result.stop, undefined);
  assert.equal(result.recordOpen, false);
  assert.equal(fixture.connection.requests('complete').length, 3);
});

test('once the connection is closed nothing more is told, and the record is open', async () => {
  const fixture = new Fixture({
    complete: inTurn<Awaited<ReturnType<FakeConnection['complete']>>>(lost(), new ConnectionClosed()),
  });
  const result = await fixture.run();
  assert.equal(result.stop, undefined);
  assert.deepEqual(result.response, ANSWER.response);
  assert.equal(result.recordOpen, true);
  assert.match(result.detail, /closed/);
  assert.equal(fixture.connection.requests('complete').length, 2);
});

test('what fn has left behind is not called when the run is over', async () => {
  const controller = new AbortController();
  const fixture = new Fixture();
  let called = false;
  await fixture.run(
    (attempt) => {
      attempt.signal.addEventListener('abort', () => (called = true));
      return ANSWER;
    },
    { signal: controller.signal },
  );
  controller.abort();
  await fixture.environment.advance(60_000);
  assert.equal(called, false);
});

test('a lease that is lost while the result is reported is not told to what fn has left behind', async () => {
  let called = false;
  const fixture = new Fixture({
    renew: inTurn<never>(refused('FAILED_PRECONDITION', 'LEASE_LAPSED')),
    complete: async () => {
      await fixture.environment.advance(20_000);
      return { operation: OPERATION, alreadyComplete: false };
    },
  });
  await fixture.run((attempt) => {
    attempt.signal.addEventListener('abort', () => (called = true));
    return ANSWER;
  });
  assert.equal(fixture.connection.requests('renew').length, 1);
  assert.equal(called, false);
});

test('one signal for all runs of a process is no leak to warn of', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error): number => warnings.push(warning);
  process.on('warning', note);
  const { signal } = new AbortController();
  const gates: (() => void)[] = [];
  const fixture = new Fixture();
  const runs = Array.from({ length: 50 }, () =>
    fixture.run(async (attempt) => {
      for (let i = 0; i < 20; ++i) attempt.signal.addEventListener('abort', () => undefined);
      await new Promise<void>((resolve) => gates.push(resolve));
      return ANSWER;
    }, { signal }),
  );
  await settled();
  gates.forEach((open) => open());
  await Promise.all(runs);
  await settled();
  process.off('warning', note);
  assert.deepEqual(warnings, []);
});

// --- Replies of the past --------------------------------------------------------------------------

test('a lease that lapsed before its answer came is given back, and another attempt made', async () => {
  const lapsed = { ...acquired(0), outcome: 'UNRESOLVED', nextStep: 'RECONCILE_FIRST' } as const;
  const fixture = new Fixture({ reserve: inTurn(lapsed, acquired()) });
  assert.equal((await fixture.run()).stop, undefined);
  assert.deepEqual(fixture.connection.methods(), ['reserve', 'release', 'reserve', 'complete']);
});

test('an attempt that was freed again before its answer came is followed by another', async () => {
  const finished = refused('FAILED_PRECONDITION', 'ATTEMPT_FINISHED');
  const fixture = new Fixture({ reserve: inTurn(finished, acquired()) });
  assert.equal((await fixture.run()).stop, undefined);
});

test('a renewal that comes too late to be heard does nothing', async () => {
  let answer: (() => void) | undefined;
  const fixture = new Fixture({
    renew: () => new Promise((resolve) => (answer = () => resolve(renewed()))),
  });
  await fixture.run(async () => {
    await fixture.environment.advance(13_500);
    return ANSWER;
  });
  answer?.();
  await fixture.environment.advance(60_000);
  assert.equal(fixture.connection.requests('renew').length, 1);
  assert.equal(fixture.environment.scheduled, 0);
});
