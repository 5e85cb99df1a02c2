/** An idempotencyd of our own: a free port, a directory of its own, ended by its process. */
import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface ServerConfig {
  readonly namespaces: readonly object[];
  readonly access?: readonly object[];
}

export interface ServerOptions {
  /** Besides those that every one has. */
  readonly flags?: readonly string[] | undefined;
  /** A tar file of the store that it begins with. */
  readonly store?: string | undefined;
}

export class Server {
  readonly #process: ChildProcess;
  readonly #directory: string;
  readonly port: number;

  private constructor(process: ChildProcess, directory: string, port: number) {
    this.#process = process;
    this.#directory = directory;
    this.port = port;
  }

  get target(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** config: also as the text of its file. tokens: by name, for `access`. */
  static async start(
    config: ServerConfig | string,
    tokens: Readonly<Record<string, string>> = {},
    { flags = [], store }: ServerOptions = {},
  ): Promise<Server> {
    const binary = process.env['IDEMPOTENCYD'];
    if (binary === undefined || !existsSync(binary)) {
      throw new Error(`IDEMPOTENCYD=${binary ?? ''} is no program: build idempotencyd first`);
    }
    const directory = mkdtempSync(join(tmpdir(), 'idempotency-ts-'));
    const file = (name: string): string => join(directory, name);
    const lines = Object.entries(tokens).map(
      ([name, token]) => `${name} sha256:${createHash('sha256').update(token).digest('hex')}\n`,
    );
    const identity = lines.length === 0 ? {} : { identity: { tokens_file: file('tokens') } };
    writeFileSync(file('tokens'), lines.join(''), { mode: 0o600 });
    // JSON is YAML.
    const text = typeof config === 'string' ? config : JSON.stringify({ ...config, ...identity });
    writeFileSync(file('config.yaml'), text);
    if (store !== undefined) {
      mkdirSync(file('data'));
      execFileSync('tar', ['-xzf', store, '-C', file('data')]);
    }
    const child = spawn(
      binary,
      [
        '--listen=127.0.0.1:0',
        `--data_dir=${file('data')}`,
        `--port_file=${file('port')}`,
        `--config=${file('config.yaml')}`,
        '--ballast_mb=0',
        ...flags,
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    // Also where a test fails before it stops the server.
    const kill = (): unknown => child.kill('SIGKILL');
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    const log: string[] = [];
    child.stderr?.on('data', (text: Buffer) => log.push(text.toString()));
    const port = await portOf(child, directory).catch((error: unknown) => {
      throw new Error(`idempotencyd did not start: ${String(error)}\n${log.join('')}`);
    });
    return new Server(child, directory, port);
  }

  /** Asks it to drain. Rejects where it does not end well. */
  async stop(): Promise<void> {
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGTERM');
    const [code] = (await ended) as [number | null];
    rmSync(this.#directory, { recursive: true, force: true });
    if (code !== 0) throw new Error(`idempotencyd ended with ${String(code)}`);
  }
}

/** What the port file says, as soon as it is there. */
async function portOf(child: ChildProcess, directory: string): Promise<number> {
  const path = join(directory, 'port');
  const watcher = watch(directory);
  try {
    return await new Promise<number>((resolve, reject) => {
      const look = (): void => {
        const text = existsSync(path) ? readFileSync(path, 'utf8').trim() : '';
        if (text !== '') resolve(Number(text));
      };
      watcher.on('change', look);
      child.once('exit', (code) => reject(new Error(`it ended with ${String(code)}`)));
      look();
    });
  } finally {
    watcher.close();
  }
}
