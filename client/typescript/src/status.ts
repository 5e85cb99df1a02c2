/** Why a call failed: from what gRPC says to a CallError with the service's reason. */
import { fromBinary } from '@bufbuild/protobuf';
import { DurationSchema } from '@bufbuild/protobuf/wkt';
import type { Duration } from '@bufbuild/protobuf/wkt';

import { CallError } from './connection.js';
import type { Error as ResultError } from './gen/idempotency/v1/idempotency_service_pb.js';
import { ERROR_REASONS, STATUS_CODES } from './types.js';
import type { ErrorReason, StatusCode } from './types.js';
import { readWire } from './wire_reader.js';

const DOMAIN = 'idempotency.v1';

function codeOf(code: number): StatusCode {
  // 0 would be a success.
  return (code > 0 ? STATUS_CODES[code] : undefined) ?? 'UNKNOWN';
}

/** A reason that this version does not know counts as none: the code says enough. */
function reasonOf(name: string): ErrorReason | undefined {
  return ERROR_REASONS.find((known) => known === name && known !== 'UNSPECIFIED');
}

const millisUp = (span: Duration): number =>
  Number(span.seconds) * 1000 + Math.ceil(span.nanos / 1_000_000);

const utf8 = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);

/** The fields of a message that hold texts, bytes or messages; of a repeated one all. */
function parts(message: Uint8Array | undefined, number: number): Uint8Array[] {
  if (message === undefined) return [];
  return readWire(message)
    .filter((field) => field.number === number)
    .map((field) => field.bytes);
}

interface Details {
  reason: string;
  field: string;
  retryAfter: number | undefined;
}

/** google.rpc.Status as in the trailer grpc-status-details-bin; may be anything. */
function readDetails(bytes: Uint8Array | undefined): Details {
  const details: Details = { reason: '', field: '', retryAfter: undefined };
  for (const any of parts(bytes, 3)) {
    const [value] = parts(any, 2);
    switch (utf8(parts(any, 1)[0]).replace(/^.*\//, '')) {
      case 'google.rpc.ErrorInfo':
        if (utf8(parts(value, 2)[0]) === DOMAIN) details.reason = utf8(parts(value, 1)[0]);
        break;
      case 'google.rpc.BadRequest':
        details.field = utf8(parts(parts(value, 1)[0], 1)[0]);
        break;
      case 'google.rpc.RetryInfo':
        details.retryAfter = millisUp(fromBinary(DurationSchema, parts(value, 1)[0] ?? new Uint8Array()));
        break;
    }
  }
  return details;
}

/** code: a google.rpc.Code number. details, reason: the trailers grpc-status-details-bin and
 * idempotency-reason. */
export function errorOfCall(
  code: number,
  message: string,
  details: Uint8Array | undefined,
  reasonTrailer: string,
): CallError {
  let read: Details = { reason: '', field: '', retryAfter: undefined };
  try {
    read = readDetails(details);
  } catch {
    // Whatever it is, the code and the plain trailer stand.
  }
  const reason = reasonOf(reasonTrailer === '' ? read.reason : reasonTrailer);
  const { field, retryAfter } = read;
  return new CallError(codeOf(code), message, reason && { reason, field, retryAfter });
}

/** What a command of a batch failed with. */
export function errorOfResult(error: ResultError): CallError {
  const reason = reasonOf(ERROR_REASONS[error.reason] ?? '');
  const retryAfter = error.retryAfter && millisUp(error.retryAfter);
  const refusal = reason && { reason, field: error.field, retryAfter };
  return new CallError(codeOf(error.code), error.message, refusal);
}
