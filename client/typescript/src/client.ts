/**
 * Wraps one outbound effect in the whole protocol:
 *
 *     reserve -> (replay | wait | look up | stop with what to do) -> renew in the background
 *             -> call fn(attempt) -> classify its result -> complete | release | mark unresolved
 *
 *     const client = new Client(connect({target: '127.0.0.1:7420'}));
 *     const result = await client.run(
 *       {id: {namespace: 'payments', scope: account, key: orderKey},   // saved before the first try
 *        fingerprint: fingerprintBytes('POST', '/v1/charges', body)},
 *       async (attempt) => answered(await charge(body, attempt.providerKey, attempt.signal)),
 *       {classify: classifyHttp});
 *     if (result.stop === undefined) return result.response;
 *     return explain(result.stop, result.nextStep, result.detail);
 *
 * What it does not do: it never makes a key, never repeats fn inside one run, and cannot stop a
 * paused process from acting after its lease. Hand fencingToken or providerKey to the other side.
 */
import type { Connection } from './connection.js';
import { systemEnvironment } from './policies.js';
import type { Environment } from './policies.js';
import { RenewalTimer } from './renewal_timer.js';
import { runOnce } from './run.js';
import { RunContext } from './run_context.js';
import type { EffectFunction, RunOptions, RunRequest, RunResult } from './run_types.js';

export class Client {
  readonly connection: Connection;
  readonly #environment: Environment;
  // One for all that runs.
  readonly #timer: RenewalTimer;

  constructor(connection: Connection, environment: Environment = systemEnvironment()) {
    this.connection = connection;
    this.#environment = environment;
    this.#timer = new RenewalTimer(environment);
  }

  /** Calls fn at most once. Rejects only with what fn, the classifier or the look-up throws: that
   * counts as an unknown outcome, and is recorded before. */
  run(request: RunRequest, fn: EffectFunction, options: RunOptions = {}): Promise<RunResult> {
    const { connection } = this;
    return runOnce(
      new RunContext(connection, this.#environment, this.#timer, request, fn, options),
    );
  }
}
