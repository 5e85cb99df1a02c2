/** tests/vectors/conformance.json; its README says what the fields mean. */
import type { ErrorReason, OperationState, StatusCode, UnresolvedCause } from '@idempotencyd/client';

import type { ServerConfig } from '../support/server.js';

export interface ScriptedResponse {
  http_status?: number;
  grpc_code?: number;
  status_message?: string;
  content_type?: string;
  metadata?: [name: string, hex: string][];
  body?: string;
  body_repeat?: { hex: string; times: number };
  body_omitted?: boolean;
  body_size?: string;
}

export interface Fault {
  method: string;
  kind: 'lose_request' | 'lose_reply' | 'refuse';
  times: number;
  code?: StatusCode;
  reason?: ErrorReason;
  retry_after_ms?: number;
}

export interface ScriptedLookUp {
  found: 'UNKNOWN' | 'NOT_THERE' | 'HAPPENED';
  verdict?: 'SUCCEEDED' | 'FAILED';
  response?: ScriptedResponse;
  evidence?: string;
  provider_request_id?: string;
}

interface ScriptedError {
  code: StatusCode;
  message: string;
}

export interface Effect {
  save_progress_hex?: string;
  during?: Step[];
  dispatch?: boolean;
  answer?: ScriptedResponse;
  error?: ScriptedError;
  nothing_happened?: ScriptedError;
  throw?: boolean;
  provider_request_id?: string;
  provider_code?: string;
  retry_after_ms?: number;
}

export interface Step {
  do:
    | 'reserve'
    | 'renew'
    | 'complete'
    | 'release'
    | 'mark_unresolved'
    | 'get'
    | 'resolve'
    | 'list'
    | 'batch'
    | 'await'
    | 'run'
    | 'join';
  by?: string;
  namespace?: string;
  scope?: string;
  key?: string;
  request?: string | null;
  background?: string;
  save?: string;
  lease?: string;
  token?: number;
  attempt?: string;
  attempt_id?: string;
  lease_ms?: number;
  wait_ms?: number;
  operation_age_ms?: number;
  dispatch_later?: boolean;
  start_over?: boolean;
  operation_ref?: string;
  labels?: Record<string, string>;
  progress_hex?: string;
  dispatched?: boolean;
  verdict?: 'SUCCEEDED' | 'FAILED';
  response?: ScriptedResponse;
  provider_request_id?: string;
  detail?: string;
  cause?: UnresolvedCause;
  retry_after_ms?: number;
  reconcile_first?: boolean;
  resolution?: 'completed' | 'not_executed' | 'abandoned';
  actor?: string;
  reason?: string;
  etag?: string;
  state?: OperationState;
  states?: OperationState[];
  commands?: Step[];
  classifier?: string;
  call_timeout_ms?: number;
  renew?: boolean;
  allow_unprotected?: boolean;
  reconciler?: string;
  retry_total_ms?: number;
  settle_total_ms?: number;
  look_up?: ScriptedLookUp;
  effect?: Effect;
  faults?: Fault[];
}

/** Of a scenario that has one of its own. */
export interface ScriptedServer {
  /** Takes the place of what the script's has under these names. */
  config?: object;
  flags?: string[];
  /** A file beside the script. */
  store?: string;
}

export interface Scenario {
  name: string;
  server?: ScriptedServer;
  namespace?: string;
  steps: Step[];
}

export interface Script {
  config: ServerConfig;
  tokens: Record<string, string>;
  scenarios: Scenario[];
}
