/**
 * A TCP proxy on loopback that is as bad as a network can be, by a seeded script: it delays bytes, cuts
 * connections after so many of them, and loses what was under way.
 *
 * Every connection lives for a random number of bytes, both directions counted. When they are used up,
 * one direction or both go silent: what is sent is taken and thrown away (a request or an answer is
 * lost, and nobody knows which). A little later the connection is cut.
 */
import { once } from 'node:events';
import { createServer, connect } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

export interface FlakyScript {
  readonly seed: number;
  /** On average; a connection lives for half to one and a half times as many. */
  readonly cutAfterBytes: number;
  /** For how long a connection is silent before it is cut, at most. */
  readonly silentMs: number;
  /** How much of what passes is delayed, and for how long at most. */
  readonly delayed: number;
  readonly delayMs: number;
}

/** Of a 32-bit seed: numbers in [0, 1), the same each time (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Link {
  left: number;
  /** Which directions are thrown away. */
  silent: { up: boolean; down: boolean } | undefined;
}

export class FlakyProxy {
  readonly #server: Server;
  readonly #random: () => number;
  readonly #sockets = new Set<Socket>();
  cuts = 0;

  private constructor(
    private readonly serverPort: number,
    private readonly script: FlakyScript,
  ) {
    this.#random = seeded(script.seed);
    this.#server = createServer((client) => this.#serve(client));
  }

  static async start(serverPort: number, script: FlakyScript): Promise<FlakyProxy> {
    const proxy = new FlakyProxy(serverPort, script);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get target(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts everything. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #serve(client: Socket): void {
    const upstream = connect(this.serverPort, '127.0.0.1');
    const bytes = this.script.cutAfterBytes * (0.5 + this.#random());
    const link: Link = { left: bytes, silent: undefined };
    const ends = [client, upstream];
    for (const socket of ends) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        for (const other of ends) other.destroy();
      });
    }
    const cut = (): void => ends.forEach((socket) => socket.destroy());
    client.on('data', (data) => this.#pass(link, 'up', data, upstream, cut));
    upstream.on('data', (data) => this.#pass(link, 'down', data, client, cut));
  }

  #pass(link: Link, way: 'up' | 'down', data: Buffer, to: Socket, cut: () => void): void {
    link.left -= data.byteLength;
    if (link.left <= 0 && link.silent === undefined) {
      ++this.cuts;
      const which = this.#random() * 3;
      link.silent = { up: which < 2, down: which >= 1 };
      setTimeout(cut, this.#random() * this.script.silentMs);
    }
    if (link.silent?.[way] === true) return;
    const late = this.#random() < this.script.delayed;
    if (!late) {
      // Behind what is late: bytes keep their order.
      if (to.listenerCount('held') === 0) to.write(data);
      else to.once('held', () => to.write(data));
      return;
    }
    const release = (): void => {
      to.write(data);
    };
    to.once('held', release);
    setTimeout(() => to.emit('held'), this.#random() * this.script.delayMs);
  }
}
