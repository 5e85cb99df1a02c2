/** What goes well and what fails: nothing of it is printed, and no error carries what is secret. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const STORY = fileURLToPath(new URL('./support/secret_story.js', import.meta.url));

test('no key, body or credential is printed, and nothing else', async () => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [STORY]);
  assert.equal(stderr, '');
  assert.equal(stdout, '');
});

test('no error and no result shows a credential, nor an error a key or a body', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [STORY, '--show']);
  const shown = stdout.split('\n').filter((line) => line.startsWith('error'));
  assert.ok(shown.length > 3, stdout);
  assert.doesNotMatch(stdout, /a-secret-token/);
  for (const line of shown) assert.doesNotMatch(line, /a-secret-(key|body)/);
});
