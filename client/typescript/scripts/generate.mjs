// Makes src/gen: the messages of the API, what the providers promise, and the service config. The
// sources are the repository's own (../../protos, ../contracts, ../service_config.json); nothing is
// asked of a network.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
const client = join(here, '..');

execFileSync(join(here, 'node_modules/.bin/buf'), ['generate'], { cwd: here, stdio: 'inherit' });

function constant(name, about, value) {
  return `// Made by scripts/generate.mjs from ${about}; do not edit.\n` +
    `export const ${name} = ${JSON.stringify(value, null, 2)} as const;\n`;
}

const read = (...path) => JSON.parse(readFileSync(join(client, ...path), 'utf8'));
const contracts = readdirSync(join(client, 'contracts'))
  .filter((name) => name.endsWith('.json'))
  .sort()
  .map((name) => read('contracts', name));
const { version } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));

mkdirSync(join(here, 'src/gen'), { recursive: true });
const write = (name, text) => writeFileSync(join(here, 'src/gen', name), text);
write('contracts.ts', constant('CONTRACTS', 'client/contracts', contracts));
write(
  'service_config.ts',
  constant('SERVICE_CONFIG', 'client/service_config.json', read('service_config.json')),
);
write('version.ts', constant('VERSION', 'package.json', version));
