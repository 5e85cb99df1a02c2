/** The client of idempotencyd. Start with client.ts; README.md tells the recipes. */
export type { Attempt } from './attempt.js';
export {
  answered,
  classifyGrpc,
  classifyHttp,
  failed,
  nothingHappened,
  unknown,
} from './classification.js';
export type {
  Classification,
  Classifier,
  Disposition,
  EffectError,
  EffectResult,
} from './classification.js';
export { Client } from './client.js';
export { CallError, ConnectionClosed, DEFAULT_CALL_TIMEOUT, isTransient } from './connection.js';
export type * from './connection.js';
export { FingerprintKey, fingerprintBytes, fingerprintJson } from './fingerprint.js';
export type { FingerprintOptions } from './fingerprint.js';
export { MessageError, canonicalMessage, fingerprintMessage } from './fingerprint_message.js';
export type { MessageFingerprintOptions } from './fingerprint_message.js';
export { GrpcConnection, connect } from './grpc_connection.js';
export type { ConnectionOptions, TlsOptions } from './grpc_connection.js';
export { SERVICE_CONFIG } from './gen/service_config.js';
export {
  KEY_FIELD_NAME,
  REPLAYED_FIELD_NAME,
  answerKeyProblem,
  answerReserve,
  answerReserveError,
  answerRun,
} from './http_edge.js';
export type { HttpAnswer, ProblemName, ProblemOptions } from './http_edge.js';
export { parseKeyField } from './http_key_field.js';
export type { KeyField, KeyFieldOptions, KeyProblem } from './http_key_field.js';
export { JsonError, canonicalJson } from './json_canonical.js';
export { deriveKey, providerKey, randomKey } from './keys.js';
export {
  DEFAULT_BACKOFF,
  DEFAULT_RETRY,
  DEFAULT_SETTLE_RETRY,
  backoffDelay,
  retryUpTo,
  systemEnvironment,
} from './policies.js';
export type { BackoffPolicy, Environment, RetryPolicy } from './policies.js';
export { classifierFor, findProvider, providerNames } from './providers.js';
export type { AnswerRule, ProviderName, ProviderProfile, ProviderStatement } from './providers.js';
export type * from './run_types.js';
export { Stopped, answerOf } from './stopped.js';
export * from './types.js';
