/** The real connection: @grpc/grpc-js, with the published service config (client/service_config.json). */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { DescMessage, DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import { Client as GrpcClient, Metadata, credentials } from '@grpc/grpc-js';
import type { ChannelCredentials, ChannelOptions, ServiceError } from '@grpc/grpc-js';

import { CallError, ConnectionClosed, DEFAULT_CALL_TIMEOUT } from './connection.js';
import type * as api from './connection.js';
import * as convert from './convert.js';
import { IdempotencyAdminService } from './gen/idempotency/v1/admin_service_pb.js';
import { BatchRequestSchema, IdempotencyService } from './gen/idempotency/v1/idempotency_service_pb.js';
import { SERVICE_CONFIG } from './gen/service_config.js';
import { VERSION } from './gen/version.js';
import { onAbort } from './on_abort.js';
import { errorOfCall } from './status.js';
import type { Operation } from './types.js';

export interface TlsOptions {
  /** PEM; undefined: the system's. */
  readonly rootCertificates?: string | undefined;
  readonly clientCertificateChain?: string | undefined;
  readonly clientPrivateKey?: string | undefined;
  /** Checked against the certificate instead of the target's host. */
  readonly serverName?: string | undefined;
}

export interface ConnectionOptions {
  /** "host:port", "dns:///...", "unix:/path". Default: 127.0.0.1:7420. */
  readonly target?: string | undefined;
  /** Undefined: plaintext, for loopback and Unix sockets. */
  readonly tls?: TlsOptions | undefined;
  /** Asked for each call, and sent as "authorization: Bearer ...". Only over TLS or to a loopback
   * address or a Unix socket; else every call fails with FAILED_PRECONDITION. */
  readonly bearerToken?: (() => string | Promise<string>) | undefined;
}

/** Never fails: a service that cannot be reached shows in the calls. */
export function connect(options: ConnectionOptions = {}): GrpcConnection {
  return new GrpcConnection(options);
}

/** Whether what is sent to it stays on this machine. */
export function isLocalTarget(target: string): boolean {
  if (/^unix(-abstract)?:/.test(target)) return true;
  // A list of addresses, of which any may be elsewhere.
  if (target.includes(',')) return false;
  const address = target.replace(/^(dns:\/\/\/|dns:|ipv4:|ipv6:)/, '');
  if (/^localhost(:|$)/.test(address) || address === '::1' || address.startsWith('[::1]')) return true;
  // 127.0.0.1, and not a name such as 127.example.org.
  return /^127\.[0-9.]*(:|$)/.test(address);
}

function credentialsOf(tls: TlsOptions | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const pem = (text: string | undefined): Buffer | null =>
    text === undefined ? null : Buffer.from(text);
  return credentials.createSsl(
    pem(tls.rootCertificates),
    pem(tls.clientPrivateKey),
    pem(tls.clientCertificateChain),
  );
}

const [{ maxRequestMessageBytes, maxResponseMessageBytes }] = SERVICE_CONFIG.methodConfig;

function channelOptions(tls: TlsOptions | undefined): ChannelOptions {
  return {
    'grpc.service_config': JSON.stringify(SERVICE_CONFIG),
    'grpc.service_config_disable_resolution': 1,
    'grpc.max_send_message_length': maxRequestMessageBytes,
    'grpc.max_receive_message_length': maxResponseMessageBytes,
    // The service takes a ping every 10 s. A connection that was cut without a word is noticed after
    // the two together, while calls are on it.
    'grpc.keepalive_time_ms': 20_000,
    'grpc.keepalive_timeout_ms': 10_000,
    'grpc.keepalive_permit_without_calls': 0,
    // A service that was away for long is found again soon.
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 5_000,
    // The service is named outright; a proxy for the web has no part in it.
    'grpc.enable_http_proxy': 0,
    'grpc.primary_user_agent': `idempotency-node/${VERSION}`,
    ...(tls?.serverName === undefined ? {} : { 'grpc.ssl_target_name_override': tls.serverName }),
  };
}

function errorOf(error: ServiceError): CallError {
  const [reason = ''] = error.metadata?.get('idempotency-reason') ?? [];
  const [details] = error.metadata?.get('grpc-status-details-bin') ?? [];
  return errorOfCall(
    error.code,
    error.details,
    typeof details === 'string' ? undefined : details,
    String(reason),
  );
}

/** As the service would refuse it: what cannot be made a message now cannot be later either. What is
 * wrong with it may hold anything: only its kind is told. */
function made<Made>(make: () => Made): Made {
  try {
    return make();
  } catch (thrown) {
    if (thrown instanceof CallError) throw thrown;
    const kind = thrown instanceof Error ? thrown.name : typeof thrown;
    const refusal = { reason: 'INVALID_FIELD', field: '', retryAfter: undefined } as const;
    throw new CallError('INVALID_ARGUMENT', `the request cannot be sent: ${kind}`, refusal);
  }
}

export class GrpcConnection implements api.Connection {
  // Private also to what prints objects: a token is behind them.
  readonly #client: GrpcClient;
  readonly #bearerToken: ConnectionOptions['bearerToken'];
  readonly #exposed: boolean;
  #closed = false;

  constructor({ target = '127.0.0.1:7420', tls, bearerToken }: ConnectionOptions) {
    this.#client = new GrpcClient(target, credentialsOf(tls), channelOptions(tls));
    this.#bearerToken = bearerToken;
    this.#exposed = tls === undefined && !isLocalTarget(target);
  }

  /** Calls that are under way may fail; further ones fail with ConnectionClosed, and a run that has
   * something to report then ends with recordOpen: close it when all of them have ended. */
  close(): void {
    this.#closed = true;
    this.#client.close();
  }

  async reserve(request: api.ReserveRequest, options?: api.CallOptions) {
    const { reserve } = IdempotencyService.method;
    const message = made(() => convert.reserveToProto(request));
    return convert.reserveFromProto(await this.#call(reserve, message, options));
  }

  async renew(request: api.RenewRequest, options?: api.CallOptions) {
    const { renew } = IdempotencyService.method;
    const message = made(() => convert.renewToProto(request));
    return convert.renewFromProto(await this.#call(renew, message, options));
  }

  async complete(request: api.CompleteRequest, options?: api.CallOptions) {
    const { complete } = IdempotencyService.method;
    const message = made(() => convert.completeToProto(request));
    return convert.completeFromProto(await this.#call(complete, message, options));
  }

  async release(request: api.ReleaseRequest, options?: api.CallOptions) {
    const { release } = IdempotencyService.method;
    const message = made(() => convert.releaseToProto(request));
    return convert.releaseFromProto(await this.#call(release, message, options));
  }

  async markUnresolved(request: api.MarkUnresolvedRequest, options?: api.CallOptions) {
    const { markUnresolved } = IdempotencyService.method;
    const message = made(() => convert.markToProto(request));
    return convert.markFromProto(await this.#call(markUnresolved, message, options));
  }

  async getOperation(request: api.GetOperationRequest, options?: api.CallOptions) {
    const { getOperation } = IdempotencyService.method;
    const message = made(() => convert.getToProto(request));
    return convert.getFromProto(await this.#call(getOperation, message, options));
  }

  async resolve(request: api.ResolveRequest, options?: api.CallOptions): Promise<Operation> {
    const { resolveOperation } = IdempotencyAdminService.method;
    const message = made(() => convert.resolveToProto(request));
    const { operation } = await this.#call(resolveOperation, message, options);
    return convert.operationFromProto(operation);
  }

  async listOperations(request: api.ListOperationsRequest, options?: api.CallOptions) {
    const { listOperations } = IdempotencyAdminService.method;
    const message = made(() => convert.listToProto(request));
    return convert.listFromProto(await this.#call(listOperations, message, options));
  }

  async batch(commands: readonly api.Command[], options?: api.CallOptions) {
    const message = made(() =>
      create(BatchRequestSchema, { commands: commands.map(convert.commandToProto) }),
    );
    const { results } = await this.#call(IdempotencyService.method.batch, message, options);
    return results.map(convert.resultFromProto);
  }

  /** For methods of the API that have no method here: messages of './proto'. */
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    options?: api.CallOptions,
  ): Promise<MessageShape<O>> {
    return this.#call(method, request, options);
  }

  async #metadata(): Promise<Metadata> {
    const metadata = new Metadata();
    if (this.#bearerToken === undefined) return metadata;
    if (this.#exposed) {
      throw new CallError(
        'FAILED_PRECONDITION',
        'a bearer token is not sent in plain text over a network: set ConnectionOptions.tls, or ' +
          'connect to a loopback address or a Unix socket',
      );
    }
    metadata.set('authorization', `Bearer ${await this.#bearerToken()}`);
    return metadata;
  }

  async #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    { timeout = DEFAULT_CALL_TIMEOUT, signal }: api.CallOptions = {},
  ): Promise<MessageShape<O>> {
    const bytes = made(() => Buffer.from(toBinary(method.input, request)));
    const metadata = await this.#metadata();
    if (this.#closed) throw new ConnectionClosed();
    if (signal?.aborted === true) throw new CallError('CANCELLED', 'cancelled before it was sent');
    return new Promise<MessageShape<O>>((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: Buffer) => message,
        (answer: Buffer) => fromBinary(method.output, answer),
        bytes,
        metadata,
        { deadline: Date.now() + Math.max(timeout, 0) },
        (error: ServiceError | null, response?: MessageShape<O>) => {
          unfollow();
          if (error !== null) reject(errorOf(error));
          else if (response === undefined) reject(new CallError('INTERNAL', 'no answer and no error'));
          else resolve(response);
        },
      );
      const unfollow = onAbort(signal, () => call.cancel());
    });
  }
}
