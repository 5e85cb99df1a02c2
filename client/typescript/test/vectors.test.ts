/** The vectors that every language must agree on, byte for byte. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { DescMessage } from '@bufbuild/protobuf';
import * as wkt from '@bufbuild/protobuf/wkt';

import {
  CallError,
  ERROR_REASONS,
  FingerprintKey,
  JsonError,
  MessageError,
  NEXT_STEPS,
  RESERVE_OUTCOMES,
  STATUS_CODES,
  answerKeyProblem,
  answerReserve,
  answerRun,
  bytesOf,
  canonicalJson,
  canonicalMessage,
  classifierFor,
  classifyGrpc,
  classifyHttp,
  deriveKey,
  findProvider,
  fingerprintBytes,
  fingerprintJson,
  fingerprintMessage,
  parseKeyField,
  providerKey,
  providerNames,
} from '@idempotencyd/client';
import type {
  Classifier,
  EffectResult,
  ErrorReason,
  Fingerprint,
  HttpAnswer,
  KeyProblem,
  NextStep,
  ProviderName,
  RunResult,
  StatusCode,
  StopReason,
  Verdict,
} from '@idempotencyd/client';

import { reserveOf, responseOf } from './support/next_steps.js';
import type { HttpExpectation, NextSteps, VectorResponse } from './support/next_steps.js';
import { fromHex, hex, vectors } from './support/vectors.js';

// --- Fingerprints and keys ------------------------------------------------------------------------

interface FingerprintRow {
  name: string;
  form: 'bytes-1' | 'jcs-1' | 'proto-1';
  method: string;
  resource: string;
  body_hex?: string;
  json?: string;
  json_hex?: string;
  type?: string;
  wire_hex?: string;
  exclude?: string[];
  secret_hex?: string;
  key_id?: string;
  algorithm?: string;
  digest_hex?: string;
  canonical?: string;
  content_hex?: string;
  refused?: boolean;
}
interface Fingerprints {
  rows: FingerprintRow[];
  same: string[][];
  different: string[][];
}

function schemaOf(typeName: string): DescMessage {
  const schemas = (Object.values(wkt) as unknown[]).filter(
    (one): one is DescMessage => (one as Partial<DescMessage>).kind === 'message',
  );
  const found = schemas.find((schema) => schema.typeName === typeName);
  assert.ok(found, typeName);
  return found;
}

function fingerprintOf(row: FingerprintRow): Fingerprint {
  const { method, resource, exclude = [] } = row;
  const secret = row.secret_hex === undefined ? undefined : fromHex(row.secret_hex);
  const key = secret && new FingerprintKey(secret, row.key_id ?? '');
  const options = { exclude, ...(key === undefined ? {} : { key }) };
  switch (row.form) {
    case 'bytes-1':
      return fingerprintBytes(method, resource, fromHex(row.body_hex ?? ''), key);
    case 'jcs-1': {
      const json = row.json_hex === undefined ? (row.json ?? '') : fromHex(row.json_hex);
      if (row.canonical !== undefined) assert.equal(canonicalJson(json, exclude), row.canonical);
      return fingerprintJson(method, resource, json, options);
    }
    case 'proto-1': {
      const schema = schemaOf(row.type ?? '');
      const wire = fromHex(row.wire_hex ?? '');
      if (row.content_hex !== undefined) {
        assert.equal(hex(canonicalMessage(schema, wire, exclude)), row.content_hex);
      }
      return fingerprintMessage(method, resource, schema, wire, options);
    }
  }
}

test('fingerprints', () => {
  const { rows, same, different } = vectors<Fingerprints>('fingerprints.json');
  const digests = new Map<string, string>();
  for (const row of rows) {
    if (row.refused === true) {
      const refuses = (thrown: unknown): boolean =>
        thrown instanceof JsonError || thrown instanceof MessageError;
      assert.throws(() => fingerprintOf(row), refuses, JSON.stringify(row));
      continue;
    }
    const fingerprint = fingerprintOf(row);
    assert.equal(fingerprint.algorithm, row.algorithm, JSON.stringify(row));
    assert.equal(hex(fingerprint.digest), row.digest_hex, JSON.stringify(row));
    digests.set(row.name, hex(fingerprint.digest));
  }
  const distinct = (names: string[]): number => new Set(names.map((name) => digests.get(name))).size;
  for (const group of same) assert.equal(distinct(group), 1, group.join(', '));
  for (const group of different) assert.equal(distinct(group), group.length, group.join(', '));
  assert.ok(rows.length > 100);
});

test('a message of protobuf-es has the fingerprint of its bytes', () => {
  const message = { $typeName: 'google.protobuf.Duration', seconds: 3n, nanos: 5 } as const;
  assert.deepEqual(
    fingerprintMessage('Call', '', wkt.DurationSchema, message),
    fingerprintMessage('Call', '', wkt.DurationSchema, fromHex('10050803')),
  );
});

test('a fingerprint key that is too short, or has a name that is none, is refused', () => {
  assert.throws(() => new FingerprintKey(new Uint8Array(15)), RangeError);
  assert.throws(() => new FingerprintKey(new Uint8Array(16), 'a b'), RangeError);
  assert.throws(() => new FingerprintKey(new Uint8Array(16), 'x'.repeat(25)), RangeError);
});

interface Keys {
  provider_keys: { name: string; namespace: string; scope: string; key: string; provider_key: string }[];
  derived_keys: { name: string; domain_label: string; business_id: string; key: string }[];
}

test('provider keys and derived keys', () => {
  const { provider_keys, derived_keys } = vectors<Keys>('provider_keys.json');
  for (const row of provider_keys) assert.equal(providerKey(row), row.provider_key, row.name);
  for (const row of derived_keys) {
    assert.equal(deriveKey(row.domain_label, row.business_id), row.key, row.name);
  }
  assert.ok(provider_keys.length > 5 && derived_keys.length > 5);
});

// --- Classification -------------------------------------------------------------------------------

interface ClassificationRow {
  name: string;
  classifier: string;
  http_status?: [first: number, last: number];
  grpc_code?: number;
  headers?: Record<string, string> | [string, string][];
  answer?: boolean;
  error_code?: number;
  provider_code?: string;
  retry_after_ms?: number;
  attempt?: number;
  certainty?: 'NOTHING_HAPPENED' | 'UNKNOWN';
  means: string;
  cause?: string;
  reconcile_first?: boolean;
}

function classifierOf(name: string): Classifier {
  if (name === 'grpc') return classifyGrpc;
  if (name === 'http') return classifyHttp;
  return classifierFor(findProvider(name as ProviderName));
}

/** One for each status of the row's range. */
function resultsOf(row: ClassificationRow): EffectResult[] {
  const headers = Array.isArray(row.headers) ? row.headers : Object.entries(row.headers ?? {});
  const metadata = headers.map(([name, value]) => ({ name, value: bytesOf(value) }));
  const base: EffectResult = {
    providerCode: row.provider_code,
    retryAfter: row.retry_after_ms,
    certainty: row.certainty,
    attempt: row.attempt ?? 1,
  };
  if (row.http_status !== undefined) {
    const [first, last] = row.http_status;
    return Array.from({ length: last - first + 1 }, (_, i) => ({
      ...base,
      response: { httpStatus: first + i, metadata },
    }));
  }
  if (row.grpc_code !== undefined) {
    return [{ ...base, response: { grpcCode: row.grpc_code, metadata } }];
  }
  if (row.answer === true) return [{ ...base, response: { metadata } }];
  const code = STATUS_CODES[row.error_code ?? 0] ?? 'UNKNOWN';
  return [{ ...base, error: { code, message: '' } }];
}

test('classification', () => {
  const { rows } = vectors<{ rows: ClassificationRow[] }>('classification.json');
  for (const row of rows) {
    for (const result of resultsOf(row)) {
      const means = classifierOf(row.classifier)(result);
      const where = `${row.name}: ${JSON.stringify(result)}`;
      assert.equal(means.disposition, row.means, where);
      if (row.means !== 'UNKNOWN') continue;
      assert.equal(means.cause, row.cause, where);
      assert.equal(means.reconcileFirst, row.reconcile_first, where);
    }
  }
  const used = new Set(rows.map((row) => row.classifier));
  assert.deepEqual([...used].sort(), ['grpc', 'http', ...providerNames()].sort());
});

// --- Next steps, and the HTTP edge ----------------------------------------------------------------

function headerOf(answer: HttpAnswer, name: string): string | undefined {
  return answer.headers.find(([other]) => other === name)?.[1];
}

function checkHttp(answer: HttpAnswer | undefined, expected: HttpExpectation, where: string): void {
  assert.ok(answer, where);
  assert.equal(answer.status, expected.status, where);
  const retryAfter = expected.retry_after === undefined ? undefined : String(expected.retry_after);
  assert.equal(headerOf(answer, 'Retry-After'), retryAfter, where);
  const replayed = expected.replayed === true ? 'true' : undefined;
  assert.equal(headerOf(answer, 'Idempotency-Replayed'), replayed, where);
  const isProblem = headerOf(answer, 'Content-Type') === 'application/problem+json';
  assert.equal(isProblem, expected.problem !== undefined, where);
  if (expected.problem === undefined) return;
  const document = JSON.parse(Buffer.from(answer.body ?? []).toString()) as { type: string };
  assert.equal(document.type, `tag:idempotencyd.dev,2026:problem/${expected.problem}`, where);
}

test('next steps', () => {
  const file = vectors<NextSteps>('next_steps.json');
  assert.deepEqual(
    file.next_steps.map(({ name }) => name),
    NEXT_STEPS,
  );
  assert.deepEqual(
    file.outcomes.map(({ name }) => name),
    RESERVE_OUTCOMES,
  );
  for (const row of file.rows) {
    const answer = answerReserve(reserveOf(row));
    assert.equal(answer === undefined, row.may_start, row.name);
    if (row.http !== null) checkHttp(answer, row.http, row.name);
  }
});

interface HttpEdge {
  key_fields: {
    name: string;
    values: string[];
    max_bytes?: number;
    allow_raw?: boolean;
    key?: string;
    problem?: KeyProblem;
  }[];
  key_problems: (HttpExpectation & { name: KeyProblem })[];
  runs: (HttpExpectation & {
    name: string;
    stop: StopReason | null;
    next_step?: NextStep;
    response?: VectorResponse & { body_omitted?: boolean };
    verdict?: Verdict;
    replay?: boolean;
    retry_after_ms?: number;
    refusal?: { reason: ErrorReason; field: string };
  })[];
}

test('the Idempotency-Key field', () => {
  const { key_fields, key_problems } = vectors<HttpEdge>('http_edge.json');
  for (const row of key_fields) {
    const field = parseKeyField(row.values, {
      maxBytes: row.max_bytes ?? 255,
      allowRaw: row.allow_raw ?? true,
    });
    assert.equal(field.problem, row.problem, row.name);
    assert.equal(field.key, row.key ?? '', row.name);
  }
  for (const row of key_problems) checkHttp(answerKeyProblem(row.name), row, row.name);
  assert.ok(key_fields.length > 30);
});

test('what becomes of a run over HTTP', () => {
  const { runs } = vectors<HttpEdge>('http_edge.json');
  for (const row of runs) {
    const result = {
      stop: row.stop ?? undefined,
      response: responseOf(row.response) ?? (row.stop === null ? {} : undefined),
      verdict: row.verdict ?? 'UNSPECIFIED',
      replayed: row.replay ?? false,
      nextStep: row.next_step ?? 'UNSPECIFIED',
      retryAfter: row.retry_after_ms,
      refusal: row.refusal && { ...row.refusal, retryAfter: undefined },
    } as RunResult;
    checkHttp(answerRun(result), row, row.name);
  }
  assert.ok(runs.length > 15);
});

test('every reason of the API has its name, and an error shows it', () => {
  for (const reason of ERROR_REASONS) {
    const code: StatusCode = 'FAILED_PRECONDITION';
    const error = new CallError(code, 'a sentence', { reason, field: '', retryAfter: undefined });
    assert.equal(error.reason, reason);
  }
});
