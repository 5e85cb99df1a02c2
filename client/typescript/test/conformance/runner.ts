/** Does what tests/vectors/conformance.json says, through this client, and prints the trace: a line of
 * JSON for each step. The server is of its own. */
import {
  CallError,
  Client,
  bytesOf,
  classifierFor,
  classifyGrpc,
  classifyHttp,
  connect,
  findProvider,
  fingerprintBytes,
  randomKey,
} from '@idempotencyd/client';
import type {
  Attempt,
  CachedResponse,
  Classifier,
  CommandResult,
  Connection,
  EffectResult,
  Fingerprint,
  GrpcConnection,
  Lease,
  LookUp,
  OperationId,
  ProviderName,
  ReserveRequest,
  Resolution,
  RunOptions,
  RunRequest,
  RunResult,
} from '@idempotencyd/client';

import { Server } from '../support/server.js';
import { fromHex, hex, vectorFile, vectors } from '../support/vectors.js';
import { faulty } from './faulty_connection.js';
import type {
  Effect,
  Scenario,
  Script,
  ScriptedLookUp,
  ScriptedResponse,
  ScriptedServer,
  Step,
} from './script.js';
import {
  Tokens,
  errorLine,
  leaseLine,
  name,
  operationLine,
  refusalLine,
  responseLine,
} from './trace.js';

/** What a step came to; the tokens are numbered when the line is printed. */
type Line = (tokens: Tokens) => object;

/** Long enough for a busy machine; nothing waits that long unless something is wrong. */
const PATIENTLY = { timeout: 60_000 };

/** Thrown by effects that are to throw. */
class Thrown extends Error {}

function responseOf(scripted: ScriptedResponse): CachedResponse {
  const repeat = scripted.body_repeat;
  const body =
    repeat !== undefined
      ? fromHex(repeat.hex.repeat(repeat.times))
      : scripted.body === undefined
        ? undefined
        : bytesOf(scripted.body);
  return {
    httpStatus: scripted.http_status,
    grpcCode: scripted.grpc_code,
    statusMessage: scripted.status_message,
    contentType: scripted.content_type,
    metadata: (scripted.metadata ?? []).map(([name, value]) => ({ name, value: fromHex(value) })),
    body,
    bodyOmitted: scripted.body_omitted,
    bodySize: scripted.body_size === undefined ? undefined : BigInt(scripted.body_size),
  };
}

const optionalResponse = (scripted: ScriptedResponse | undefined): CachedResponse | undefined =>
  scripted && responseOf(scripted);

function lookUpOf(scripted: ScriptedLookUp): LookUp {
  const { found, evidence = '' } = scripted;
  if (found !== 'HAPPENED') return { found, evidence };
  const response = optionalResponse(scripted.response);
  return {
    found,
    evidence,
    verdict: scripted.verdict ?? 'SUCCEEDED',
    providerRequestId: scripted.provider_request_id ?? '',
    ...(response === undefined ? {} : { response }),
  };
}

function classifierOf(classifier: string): Classifier {
  if (classifier === 'grpc') return classifyGrpc;
  if (classifier === 'http') return classifyHttp;
  return classifierFor(findProvider(classifier as ProviderName));
}

class ScenarioRunner {
  readonly #tokens = new Tokens();
  readonly #leases = new Map<string, Pick<Lease, 'fencingToken'>>();
  readonly #attemptIds = new Map<string, string>();
  readonly #background = new Map<string, Promise<() => void>>();

  constructor(
    private readonly connections: ReadonlyMap<string, GrpcConnection>,
    private readonly scenario: Scenario,
    private readonly index: number,
    private readonly print: (line: object) => void,
  ) {}

  async run(): Promise<void> {
    for (const [number, step] of this.scenario.steps.entries()) await this.#step(number, step);
  }

  async #step(number: number, step: Step): Promise<void> {
    if (step.do === 'join') {
      const finish = await this.#background.get(step.background ?? '');
      return finish?.();
    }
    const doing = this.#begin(number, step);
    if (step.background === undefined) (await doing)();
    else this.#background.set(step.background, doing);
  }

  /** Does the step; what is returned prints its line. */
  async #begin(number: number, step: Step): Promise<() => void> {
    let line: Line;
    try {
      line = await this.#do(number, step);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      line = () => ({ error: errorLine(error) });
    }
    const start = { scenario: this.scenario.name, step: number, do: step.do };
    return () => this.print({ ...start, ...line(this.#tokens) });
  }

  #do(number: number, step: Step): Promise<Line> {
    switch (step.do) {
      case 'reserve':
        return this.#reserve(step);
      case 'renew':
        return this.#renew(step);
      case 'complete':
        return this.#complete(step);
      case 'release':
        return this.#release(step);
      case 'mark_unresolved':
        return this.#markUnresolved(step);
      case 'get':
        return this.#get(step);
      case 'resolve':
        return this.#resolve(step);
      case 'list':
        return this.#list(step);
      case 'batch':
        return this.#batch(step);
      case 'await':
        return this.#await(step);
      case 'run':
        return this.#runStep(number, step);
      case 'join':
        throw new Error('a join is no step of its own');
    }
  }

  // --- What the steps are about -------------------------------------------------------------------

  #connection({ by = 'all' }: Step): GrpcConnection {
    const connection = this.connections.get(by);
    if (connection === undefined) throw new Error(`there is no token ${by}`);
    return connection;
  }

  #id(step: Step): OperationId {
    const key = step.key ?? this.scenario.name;
    return {
      namespace: step.namespace ?? this.scenario.namespace ?? 'careful',
      scope: step.scope ?? 'acct_1',
      // Scenarios share a server, unless they have one of their own.
      key: key === '' || this.scenario.server !== undefined ? key : `${key}/${this.index}`,
    };
  }

  #fingerprint({ request = 'charge 100' }: Step): { fingerprint?: Fingerprint } {
    if (request === null) return {};
    return { fingerprint: fingerprintBytes('POST', '/v1/charges', request) };
  }

  #held(step: Step): { id: OperationId; fencingToken: bigint } {
    const saved = step.lease === undefined ? undefined : this.#leases.get(step.lease);
    return { id: this.#id(step), fencingToken: saved?.fencingToken ?? BigInt(step.token ?? 0) };
  }

  #attemptId(step: Step): string {
    if (step.attempt_id !== undefined) return step.attempt_id;
    const label = step.attempt ?? '';
    const id = this.#attemptIds.get(label) ?? randomKey();
    this.#attemptIds.set(label, id);
    return id;
  }

  // --- Single calls -------------------------------------------------------------------------------

  #reserveRequest(step: Step): ReserveRequest {
    return {
      id: this.#id(step),
      ...this.#fingerprint(step),
      attemptId: this.#attemptId(step),
      leaseDuration: step.lease_ms,
      waitDuration: step.wait_ms ?? 0,
      owner: { operationRef: step.operation_ref ?? '' },
      labels: step.labels ?? {},
      operationAge: step.operation_age_ms,
      dispatchLater: step.dispatch_later ?? false,
      startOver: step.start_over ?? false,
    };
  }

  async #reserve(step: Step): Promise<Line> {
    const response = await this.#connection(step).reserve(this.#reserveRequest(step), PATIENTLY);
    if (step.save !== undefined && response.lease !== undefined) {
      this.#leases.set(step.save, response.lease);
    }
    return (tokens) => ({
      outcome: response.outcome,
      next_step: response.nextStep,
      retry_after: response.retryAfter !== undefined,
      lease: leaseLine(response.lease, tokens, step.lease_ms !== undefined),
      operation: operationLine(response.operation),
    });
  }

  async #renew(step: Step): Promise<Line> {
    const { lease } = await this.#connection(step).renew(
      {
        ...this.#held(step),
        leaseDuration: step.lease_ms,
        ...(step.progress_hex === undefined ? {} : { progress: fromHex(step.progress_hex) }),
        dispatched: step.dispatched ?? false,
      },
      PATIENTLY,
    );
    return (tokens) => ({ lease: leaseLine(lease, tokens, step.lease_ms !== undefined) });
  }

  async #complete(step: Step): Promise<Line> {
    const { operation, alreadyComplete } = await this.#connection(step).complete(
      {
        ...this.#held(step),
        verdict: step.verdict ?? 'SUCCEEDED',
        response: optionalResponse(step.response),
        providerRequestId: step.provider_request_id ?? '',
      },
      PATIENTLY,
    );
    return () => ({ operation: operationLine(operation), already_complete: alreadyComplete });
  }

  async #release(step: Step): Promise<Line> {
    const { state } = await this.#connection(step).release(
      {
        ...this.#held(step),
        detail: step.detail ?? '',
      },
      PATIENTLY,
    );
    return () => ({ state });
  }

  async #markUnresolved(step: Step): Promise<Line> {
    const marked = await this.#connection(step).markUnresolved(
      {
        ...this.#held(step),
        cause: step.cause ?? 'OTHER',
        detail: step.detail ?? '',
        providerRequestId: step.provider_request_id ?? '',
        retryAfter: step.retry_after_ms,
        reconcileFirst: step.reconcile_first ?? false,
      },
      PATIENTLY,
    );
    return () => ({
      operation: operationLine(marked.operation),
      next_step: marked.nextStep,
      retry_after: marked.retryAfter !== undefined,
    });
  }

  #getOperation(step: Step) {
    return this.#connection(step).getOperation(
      { id: this.#id(step), ...this.#fingerprint(step), waitDuration: step.wait_ms ?? 0 },
      PATIENTLY,
    );
  }

  async #get(step: Step): Promise<Line> {
    const got = await this.#getOperation(step);
    return () => ({
      operation: operationLine(got.operation),
      next_step: got.nextStep,
      retry_after: got.retryAfter !== undefined,
    });
  }

  async #batch(step: Step): Promise<Line> {
    const commands = (step.commands ?? []).map((command) => ({
      reserve: this.#reserveRequest(command),
    }));
    const results = await this.#connection(step).batch(commands, PATIENTLY);
    return () => ({ results: results.map(batchedLine) });
  }

  async #await(step: Step): Promise<Line> {
    for (;;) {
      const { operation } = await this.#getOperation(step);
      if (operation.state === step.state) return () => ({ state: operation.state });
    }
  }

  async #resolve(step: Step): Promise<Line> {
    const verdict = step.verdict ?? 'SUCCEEDED';
    const resolutions: Record<NonNullable<Step['resolution']>, Resolution> = {
      completed: { kind: 'COMPLETED', verdict, response: optionalResponse(step.response) },
      not_executed: { kind: 'NOT_EXECUTED' },
      abandoned: { kind: 'ABANDONED' },
    };
    const operation = await this.#connection(step).resolve(
      {
        id: this.#id(step),
        resolution: resolutions[step.resolution ?? 'abandoned'],
        actor: step.actor ?? '',
        reason: step.reason ?? '',
        providerRequestId: step.provider_request_id ?? '',
        etag: step.etag ?? '',
      },
      PATIENTLY,
    );
    return () => ({ operation: operationLine(operation) });
  }

  async #list(step: Step): Promise<Line> {
    const { namespace, scope, key } = this.#id(step);
    const { operations } = await this.#connection(step).listOperations(
      {
        namespace,
        scope,
        keyPrefix: key,
        states: step.states ?? [],
      },
      PATIENTLY,
    );
    const sorted = [...operations].sort((a, b) => (a.id.key < b.id.key ? -1 : 1));
    return () => ({ operations: sorted.map(operationLine) });
  }

  // --- run ----------------------------------------------------------------------------------------

  async #runStep(number: number, step: Step): Promise<Line> {
    const { connection, calls } = faulty(this.#connection(step), step.faults ?? []);
    const seen: { attempt: Attempt | undefined; called: number; lookedUp: number } = {
      attempt: undefined,
      called: 0,
      lookedUp: 0,
    };
    const effect = async (attempt: Attempt): Promise<EffectResult> => {
      ++seen.called;
      seen.attempt = attempt;
      return this.#effect(number, step.effect ?? {}, attempt);
    };
    const lookUp = (): LookUp => {
      ++seen.lookedUp;
      return lookUpOf(step.look_up ?? { found: 'UNKNOWN' });
    };
    const options: RunOptions = {
      ...this.#options(step),
      ...(step.look_up === undefined ? {} : { lookUp }),
    };
    let result: RunResult | undefined;
    try {
      result = await this.#client(connection).run(this.#request(step), effect, options);
    } catch (error) {
      if (!(error instanceof Thrown)) throw error;
    }
    return (tokens) => ({
      calls,
      called: seen.called,
      looked_up: seen.lookedUp,
      attempt: attemptLine(seen.attempt, result?.unprotected ?? false, tokens),
      raised: result === undefined,
      result: result === undefined ? null : resultLine(result),
    });
  }

  #client(connection: Connection): Client {
    return new Client(connection);
  }

  #request(step: Step): RunRequest {
    const { lease_ms, call_timeout_ms, operation_age_ms } = step;
    return {
      id: this.#id(step),
      ...this.#fingerprint(step),
      wait: step.wait_ms ?? 20_000,
      ...(operation_age_ms === undefined
        ? {}
        : { firstSent: new Date(Date.now() - operation_age_ms) }),
      ...(lease_ms === undefined ? {} : { leaseDuration: lease_ms }),
      ...(call_timeout_ms === undefined ? {} : { callTimeout: call_timeout_ms }),
      operationRef: step.operation_ref ?? '',
      labels: step.labels ?? {},
      dispatchLater: step.dispatch_later ?? false,
      startOver: step.start_over ?? false,
    };
  }

  #options(step: Step): RunOptions {
    return {
      classify: classifierOf(step.classifier ?? 'grpc'),
      reconciler: step.reconciler ?? '',
      renew: step.renew ?? true,
      allowUnprotected: step.allow_unprotected ?? false,
      retry: { total: step.retry_total_ms ?? 10_000, maxAttempts: Infinity },
      settleRetry: { total: step.settle_total_ms ?? 10_000, maxAttempts: Infinity },
      backoff: { initial: 1, maximum: 10, factor: 2, jitter: 0.5 },
    };
  }

  async #effect(number: number, effect: Effect, attempt: Attempt): Promise<EffectResult> {
    if (effect.save_progress_hex !== undefined) {
      await attempt.saveProgress(fromHex(effect.save_progress_hex));
    }
    this.#leases.set('run', attempt);
    for (const step of effect.during ?? []) await this.#step(number, step);
    if (effect.dispatch === true) await attempt.dispatch();
    if (effect.throw === true) throw new Thrown('the effect throws');
    return {
      response: optionalResponse(effect.answer),
      error: effect.error ?? effect.nothing_happened,
      certainty: effect.nothing_happened === undefined ? undefined : 'NOTHING_HAPPENED',
      providerRequestId: effect.provider_request_id,
      providerCode: effect.provider_code,
      retryAfter: effect.retry_after_ms,
    };
  }
}

function batchedLine(result: CommandResult): object {
  if ('error' in result) return { error: errorLine(result.error) };
  if (!('reserve' in result)) throw new Error('the result of another command');
  return { outcome: result.reserve.outcome, next_step: result.reserve.nextStep };
}

function attemptLine(
  attempt: Attempt | undefined,
  unprotected: boolean,
  tokens: Tokens,
): object | null {
  if (attempt === undefined) return null;
  return {
    number: attempt.number,
    token: unprotected ? null : tokens.number(attempt.fencingToken),
    provider_key: attempt.providerKey,
    progress_hex: attempt.progress === undefined ? null : hex(attempt.progress),
  };
}

function resultLine(result: RunResult): object {
  const { effectError } = result;
  return {
    stop: result.stop ?? null,
    next_step: name(result.nextStep),
    verdict: name(result.verdict),
    replayed: result.replayed,
    response: responseLine(result.response),
    refusal: refusalLine(result.refusal),
    effect_error: effectError && { code: effectError.code, message: effectError.message },
    record_open: result.recordOpen,
    unprotected: result.unprotected,
    retry_after: result.retryAfter !== undefined,
    state: name(result.operation?.state),
  };
}

/** Plays what `play` does against a server of its own. */
async function served(
  { config, tokens }: Script,
  { config: other = {}, flags, store }: ScriptedServer,
  play: (connections: ReadonlyMap<string, GrpcConnection>) => Promise<void>,
): Promise<void> {
  const server = await Server.start({ ...config, ...other }, tokens, {
    flags,
    store: store && vectorFile(store),
  });
  const connections = new Map(
    Object.entries(tokens).map(([name, token]) => [
      name,
      connect({ target: server.target, bearerToken: () => token }),
    ]),
  );
  try {
    await play(connections);
  } finally {
    for (const connection of connections.values()) connection.close();
    await server.stop();
  }
}

async function main(): Promise<void> {
  const script = vectors<Script>('conformance.json');
  const print = (line: object): void => console.log(JSON.stringify(line, nullForUndefined));
  await served(script, {}, async (shared) => {
    for (const [index, scenario] of script.scenarios.entries()) {
      const play = (connections: ReadonlyMap<string, GrpcConnection>) =>
        new ScenarioRunner(connections, scenario, index, print).run();
      await (scenario.server === undefined ? play(shared) : served(script, scenario.server, play));
    }
  });
}

function nullForUndefined(_: string, value: unknown): unknown {
  return value === undefined ? null : value;
}

await main();
