/** What every client sees of the service: the same script leaves the same trace in every language. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { sourceDir } from './support/vectors.js';

const RUNNER = fileURLToPath(new URL('./conformance/runner.js', import.meta.url));

const lines = (text: string): unknown[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as unknown);

test('the trace of this client is that of every language', async () => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [RUNNER], {
    maxBuffer: 64 * 1024 * 1024,
  });
  assert.equal(stderr, '');
  const expected = readFileSync(join(sourceDir(), 'tests/vectors/conformance_trace.jsonl'), 'utf8');
  const trace = lines(stdout);
  for (const [index, line] of lines(expected).entries()) {
    assert.deepEqual(trace[index], line, `line ${index + 1}`);
  }
  assert.equal(trace.length, lines(expected).length);
});
