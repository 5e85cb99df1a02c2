/** tests/vectors/next_steps.json; its README says what the fields mean. */
import { NEXT_STEPS, RESERVE_OUTCOMES, bytesOf, nameOf } from '@idempotencyd/client';
import type { CachedResponse, Operation, ReserveResponse, StopReason, Verdict } from '@idempotencyd/client';

export interface HttpExpectation {
  status: number;
  problem?: string;
  retry_after?: number;
  replayed?: boolean;
}

interface Numbered {
  name: string;
  number: number;
}

export interface NextStepRow {
  name: string;
  outcome: string | number;
  next_step: string | number;
  retry_after_ms?: number;
  verdict?: Verdict;
  response?: VectorResponse;
  action: string;
  may_start: boolean;
  new_attempt_id: boolean;
  /** Of a run that does not wait; null: it has an answer. */
  stop: StopReason | null;
  http: HttpExpectation | null;
}

export interface VectorResponse {
  http_status?: number;
  grpc_code?: number;
  body?: string;
}

export interface NextSteps {
  next_steps: Numbered[];
  outcomes: Numbered[];
  rows: NextStepRow[];
}

export function responseOf(response: VectorResponse | undefined): CachedResponse | undefined {
  return (
    response && {
      httpStatus: response.http_status,
      grpcCode: response.grpc_code,
      body: response.body === undefined ? undefined : bytesOf(response.body),
    }
  );
}

const named = <Name extends string>(names: readonly Name[], value: string | number) =>
  nameOf(names, typeof value === 'number' ? value : names.findIndex((name) => name === value));

function operationOf(row: NextStepRow): Operation {
  return { verdict: row.verdict ?? 'UNSPECIFIED', response: responseOf(row.response) } as Operation;
}

/** Without a lease. */
export function reserveOf(row: NextStepRow): ReserveResponse {
  return {
    outcome: named(RESERVE_OUTCOMES, row.outcome),
    nextStep: named(NEXT_STEPS, row.next_step),
    lease: undefined,
    operation: operationOf(row),
    retryAfter: row.retry_after_ms,
    detail: '',
  };
}
