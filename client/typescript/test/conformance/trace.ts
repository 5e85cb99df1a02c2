/** What the lines of a trace say. */
import { createHash } from 'node:crypto';

import type { CachedResponse, CallError, Lease, Operation, Refusal } from '@idempotencyd/client';

import { hex } from '../support/vectors.js';

/** What is not set is null. */
export const text = (value: string | undefined): string | null => value || null;
export const name = (value: string | undefined): string | null =>
  value === undefined || value === 'UNSPECIFIED' ? null : value;

export function responseLine(response: CachedResponse | undefined): object | null {
  if (response === undefined) return null;
  const { body, metadata = [] } = response;
  return {
    http_status: response.httpStatus ?? null,
    grpc_code: response.grpcCode ?? null,
    status_message: response.statusMessage ?? '',
    content_type: response.contentType ?? '',
    metadata: metadata.map((entry) => [entry.name, hex(entry.value)]),
    body: body === undefined ? null : { size: body.byteLength, sha256: sha256(body) },
    body_omitted: response.bodyOmitted ?? false,
    body_size: String(response.bodySize ?? 0n),
    metadata_omitted: response.metadataOmitted ?? false,
  };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function operationLine(operation: Operation | undefined): object | null {
  if (operation === undefined) return null;
  return {
    state: operation.state,
    attempt: operation.attempt,
    dispatched: operation.dispatched,
    verdict: name(operation.verdict),
    cause: name(operation.unresolvedCause),
    provider_request_id: operation.providerRequestId,
    operation_ref: operation.owner.operationRef,
    labels: operation.labels,
    fingerprint: text(operation.fingerprint?.algorithm),
    digest: (operation.fingerprint?.digest.byteLength ?? 0) > 0,
    response: responseLine(operation.response),
  };
}

/** Numbers the tokens of a scenario in the order of their first appearance. */
export class Tokens {
  readonly #seen = new Map<bigint, number>();

  number(token: bigint): number {
    const number = this.#seen.get(token) ?? this.#seen.size + 1;
    this.#seen.set(token, number);
    return number;
  }
}

/** timed: its duration was asked for; so short a lease may be over by then. */
export function leaseLine(lease: Lease | undefined, tokens: Tokens, timed: boolean): object | null {
  if (lease === undefined) return null;
  return {
    attempt: lease.attempt,
    token: tokens.number(lease.fencingToken),
    live: timed ? null : lease.remaining > 0,
    progress_hex: lease.progress === undefined ? null : hex(lease.progress),
  };
}

export function errorLine({ code, refusal }: CallError): object {
  return {
    code,
    reason: refusal?.reason ?? null,
    field: refusal?.field ?? '',
    retry_after: refusal?.retryAfter !== undefined,
  };
}

export function refusalLine(refusal: Refusal | undefined): object | null {
  return refusal === undefined ? null : { reason: refusal.reason, field: refusal.field };
}
