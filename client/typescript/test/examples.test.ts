/** Every recipe, against a service with the configuration of the quickstart. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Server } from './support/server.js';
import { sourceDir } from './support/vectors.js';

const EXAMPLES = fileURLToPath(new URL('../examples/', import.meta.url));
const RECIPES = readdirSync(EXAMPLES).filter((name) => name.endsWith('.js') && name !== 'example.js');

test('every recipe keeps its promise', async () => {
  assert.equal(RECIPES.length, 7);
  const config = readFileSync(join(sourceDir(), 'client/quickstart/idempotencyd.yaml'), 'utf8');
  const server = await Server.start(config);
  const run = (recipe: string) =>
    promisify(execFile)(process.execPath, [join(EXAMPLES, recipe), server.target]);
  const told = await Promise.all(RECIPES.map(run));
  for (const { stdout, stderr } of told) {
    assert.notEqual(stdout, '');
    assert.equal(stderr, '');
  }
  await server.stop();
});
