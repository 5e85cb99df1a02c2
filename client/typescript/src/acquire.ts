/** The first half of a run: reserves until the lease is held, or until it is clear how the run ends
 * without it. */
import { isTransient } from './connection.js';
import type {
  CallError,
  CallOptions,
  Refusal,
  ReserveRequest,
  ReserveResponse,
  ResolveRequest,
} from './connection.js';
import { blankOperation } from './convert.js';
import { HeldAttempt } from './held_attempt.js';
import { backoffDelay } from './policies.js';
import { RetryClock, isFinalRefusal, outcomeOf } from './retry.js';
import type { Outcome } from './retry.js';
import { stopped } from './run_context.js';
import type { RunContext } from './run_context.js';
import type { LookUp, RunAnswer, RunResult, RunStop, StopReason } from './run_types.js';
import { NEXT_STEPS } from './types.js';
import type { CachedResponse, ErrorReason, Lease, NextStep, Operation, Verdict } from './types.js';

/** An answer that took longer than this may have waited for another attempt to end. */
export const PROMPT_ANSWER = 250;
/** How long a run that was cancelled goes on asking what its Reserve has got. */
export const ASK_AFTER_CANCEL = 5_000;
/** How often lookUp is asked before a run gives up settling what others keep changing. */
export const MAX_LOOK_UPS = 10;
// Attempts of one run that may be lost to their own lateness before it gives up.
const MAX_LOST_ATTEMPTS = 3;
// Longer waits count as this.
const LONGEST_WAIT = 24 * 3_600_000;

type Happened = LookUp & { found: 'HAPPENED' };

/** Exactly one of the three. */
export type Acquisition =
  | { readonly kind: 'held'; readonly held: HeldAttempt }
  | { readonly kind: 'ended'; readonly result: RunResult }
  | { readonly kind: 'unprotected' };
/** Undefined: ask again. */
type Step = Acquisition | undefined;

const ended = (result: RunResult): Acquisition => ({ kind: 'ended', result });

function cancelledBeforeReserve(): RunStop {
  return stopped(
    'CANCELLED',
    'RESERVE_AGAIN',
    'cancelled by the caller before the operation was held',
  );
}

/** A next step that this library does not know is a reason to do nothing. */
function careful(step: NextStep): NextStep {
  const known = (NEXT_STEPS as readonly string[]).includes(step) && step !== 'UNSPECIFIED';
  return known ? step : 'STOP';
}

function reasonOf(response: ReserveResponse): StopReason {
  switch (response.outcome) {
    case 'IN_PROGRESS':
      return 'IN_PROGRESS';
    case 'COMPLETED':
    case 'EXPIRED':
      return response.nextStep === 'STOP' ? 'ABANDONED' : 'ANSWER_GONE';
    case 'UNRESOLVED':
      return 'UNRESOLVED';
    case 'FINGERPRINT_MISMATCH':
      return 'MISMATCH';
    case 'TOO_OLD':
      return 'TOO_OLD';
    case 'UNSPECIFIED':
    case 'ACQUIRED':
    case 'ALREADY_HELD':
    case 'UNKNOWN':
      return 'REFUSED';
  }
}

/** How a run ends that is not let proceed. */
function stoppedBy(response: ReserveResponse): RunStop {
  return {
    ...stopped(reasonOf(response), careful(response.nextStep), response.detail),
    operation: response.operation,
    retryAfter: response.retryAfter,
    verdict: response.operation?.verdict ?? 'UNSPECIFIED',
  };
}

/** What the service says is not understood: nothing is done. */
function notUnderstood(response: ReserveResponse): RunStop {
  return {
    ...stoppedBy(response),
    stop: 'REFUSED',
    nextStep: 'STOP',
    detail:
      `the service answered ${response.outcome} and ${response.nextStep}, which this client does ` +
      `not understand, so nothing was started; update the client. ${response.detail}`,
  };
}

function replayed(
  operation: Operation,
  response: CachedResponse | undefined,
  verdict: Verdict,
): RunAnswer {
  return {
    ...stopped('INVALID', 'USE_RESPONSE', ''),
    stop: undefined,
    response: response ?? {},
    verdict,
    replayed: true,
    operation,
  };
}

/** Whether the service cannot be reached or cannot work, in contrast to "it said no". */
function isOutage(failure: CallError): boolean {
  const reason = failure.reason;
  if (reason === undefined) return isTransient(failure);
  return reason === 'OVERLOADED' || reason === 'STORE_UNAVAILABLE';
}

// Its call may still arrive, or somebody else is at it: worth another look a little later.
const NOT_SETTLED_YET: readonly ErrorReason[] = ['NOT_SETTLED', 'ETAG_MISMATCH', 'LEASE_LIVE'];

export class Acquirer {
  readonly #waitEnd: number;
  // Of the Reserve that was answered last.
  #attemptId = '';
  #sentAt = 0;
  #waited = false;

  #startOver: boolean;
  #askedAgain = 0;
  #lookUps = 0;
  #lostAttempts = 0;

  constructor(private readonly context: RunContext) {
    const { environment, request, wait } = context;
    this.#waitEnd = environment.monotonicNow() + Math.min(wait, LONGEST_WAIT);
    this.#startOver = request.startOver ?? false;
  }

  async acquire(): Promise<Acquisition> {
    for (;;) {
      if (this.context.isCancelled) return ended(cancelledBeforeReserve());
      const { response, error } = await this.#reserve();
      const step =
        response !== undefined ? await this.#onReserved(response) : this.#onFailed(error);
      if (step !== undefined) return step;
    }
  }

  /** What is left of the caller's wait. */
  #waitLeft(): number {
    return Math.max(0, Math.floor(this.#waitEnd - this.context.environment.monotonicNow()));
  }

  async #release(fencingToken: bigint, detail: string): Promise<boolean> {
    const { connection, request } = this.context;
    const release = { id: request.id, fencingToken, detail };
    const { error } = await this.context.settle((call) => connection.release(release, call));
    return error === undefined;
  }

  // --- Asking -------------------------------------------------------------------------------------

  #makeReserve(): ReserveRequest {
    const { request, environment, isCancelled } = this.context;
    const { firstSent, operationRef = '', traceparent = '' } = request;
    return {
      id: request.id,
      fingerprint: request.fingerprint,
      attemptId: this.#attemptId,
      leaseDuration: request.leaseDuration,
      waitDuration: isCancelled ? 0 : this.#waitLeft(),
      owner: { operationRef, traceparent },
      labels: request.labels ?? {},
      operationAge: firstSent && Math.max(0, environment.wallNow() - firstSent.getTime()),
      dispatchLater: request.dispatchLater ?? false,
      startOver: this.#startOver,
    };
  }

  /** One attempt id for this call and its repetitions: a lost answer does not collide with itself. A
   * call that waits is given up where the caller cancels; the next, which does not wait, finds out
   * whether it had got hold of the operation. */
  async #reserve(): Promise<Outcome<ReserveResponse>> {
    const { environment, connection, backoff, signal } = this.context;
    this.#attemptId = environment.randomId();
    const { total, maxAttempts } = this.context.retry;
    const patience = total < LONGEST_WAIT ? total + this.#waitLeft() : total;
    const clock = new RetryClock(environment, { total: patience, maxAttempts }, backoff);
    for (;;) {
      if (this.context.isCancelled) clock.endWithin(ASK_AFTER_CANCEL);
      const reserve = this.#makeReserve();
      const waitDuration = reserve.waitDuration ?? 0;
      this.#waited = waitDuration > 0;
      const stop = this.#waited ? signal : undefined;
      const call: CallOptions = { timeout: clock.timeout() + waitDuration, signal: stop };
      this.#sentAt = environment.monotonicNow();
      const outcome = await outcomeOf(() => connection.reserve(reserve, call));
      if (outcome.error === undefined) return outcome;
      const mayPass = isTransient(outcome.error);
      const givenUp = mayPass && (stop?.aborted ?? false);
      if (!givenUp && !(await clock.again(outcome.error, mayPass, stop))) return outcome;
    }
  }

  #onFailed(failure: CallError): Step {
    const refusal = failure.refusal;
    // It was granted, and freed again before the answer came.
    if (refusal?.reason === 'ATTEMPT_FINISHED' && ++this.#lostAttempts <= MAX_LOST_ATTEMPTS) {
      return undefined;
    }
    const more = { refusal, retryAfter: refusal?.retryAfter };
    if (this.context.isCancelled) {
      // A Reserve whose answer was lost may hold the key until its lease ends.
      const recordOpen = refusal === undefined;
      return ended({ ...cancelledBeforeReserve(), ...more, recordOpen });
    }
    if (isOutage(failure)) {
      if (this.context.allowUnprotected) return { kind: 'unprotected' };
      const detail =
        'the idempotency service could not be reached or could not work, so nothing was started; ' +
        `try again later: ${failure.message}`;
      return ended({ ...stopped('UNAVAILABLE', 'RESERVE_AGAIN', detail), ...more });
    }
    const nextStep = isTransient(failure) ? 'RESERVE_AGAIN' : 'STOP';
    const detail = `the reservation was refused, so nothing was started: ${failure.message}`;
    return ended({ ...stopped('REFUSED', nextStep, detail), ...more });
  }

  async #onReserved(response: ReserveResponse): Promise<Step> {
    const { outcome, operation, lease } = response;
    if (outcome === 'UNRESOLVED' && lease !== undefined) return this.#giveBackLapsed(response);
    switch (response.nextStep) {
      case 'PROCEED':
      // The id was minted here and fn has not been called: it was an answer that got lost.
      case 'PROCEED_UNLESS_STARTED': {
        const granted = outcome === 'ACQUIRED' || outcome === 'ALREADY_HELD';
        if (granted && lease !== undefined) return this.#hold({ ...response, lease });
        break;
      }
      case 'USE_RESPONSE':
        if (operation === undefined) break;
        return ended(replayed(operation, operation.response, operation.verdict));
      case 'RESERVE_AGAIN':
        return this.#askAgain(response);
      case 'LOOK_UP_ANSWER':
        return this.#lookUpAnswer(response);
      case 'RECONCILE_FIRST':
        return this.#reconcile(response);
      case 'SETTLE_OTHER_FIRST':
      case 'USE_OWN_KEY':
      case 'STOP':
        return ended(stoppedBy(response));
      case 'UNSPECIFIED':
      case 'UNKNOWN':
        break;
    }
    return ended(notUnderstood(response));
  }

  async #askAgain(response: ReserveResponse): Promise<Step> {
    const { environment, signal } = this.context;
    const backoff = backoffDelay(this.context.backoff, ++this.#askedAgain, environment.random());
    const delay = Math.max(response.retryAfter ?? 0, backoff);
    // The service has waited for as long as it may; what is left of the caller's wait is spent here.
    if (delay >= this.#waitLeft()) return ended(stoppedBy(response));
    await environment.sleep(delay, signal);
    return undefined;
  }

  // --- Holding ------------------------------------------------------------------------------------

  async #hold(response: ReserveResponse & { lease: Lease }): Promise<Step> {
    const { connection, environment, timer, request } = this.context;
    const held = new HeldAttempt({
      connection,
      environment,
      timer,
      id: request.id,
      lease: response.lease,
      sentAt: this.#sentAt,
      leaseDuration: request.leaseDuration,
      callTimeout: request.callTimeout,
      dispatchLater: request.dispatchLater ?? false,
      renew: this.context.renew,
      retry: this.context.retry,
      backoff: this.context.backoff,
      cancelled: this.context.signal,
    });
    // What is cancelled is given back anyhow.
    if (this.context.isCancelled || !this.#isInDoubt(response, held)) return { kind: 'held', held };
    return this.#confirm(held);
  }

  /** Whether the lease is renewed before anything starts: one that was waited for may be as good as
   * over, and one that is not the first answer's has run for a while. */
  #isInDoubt(response: ReserveResponse, held: HeldAttempt): boolean {
    const took = this.context.environment.monotonicNow() - this.#sentAt;
    const hasRun = response.outcome === 'ALREADY_HELD' && !this.context.renew;
    return (this.#waited && took > PROMPT_ANSWER) || hasRun || held.remaining() <= 0;
  }

  async #confirm(held: HeldAttempt): Promise<Step> {
    const failure = await held.confirm();
    if (failure === undefined) return { kind: 'held', held };
    const why = 'the lease was not confirmed before the start';
    const recordOpen = !(await this.#release(held.fencingToken, why));
    // It was lost while nobody knew of it.
    if (isFinalRefusal(failure) && ++this.#lostAttempts <= MAX_LOST_ATTEMPTS) return undefined;
    const detail =
      'the lease could not be confirmed, so nothing was started; try again later: ' +
      failure.message;
    const result = stopped('UNAVAILABLE', 'RESERVE_AGAIN', detail);
    return ended({ ...result, refusal: failure.refusal, recordOpen });
  }

  /** This attempt's own lease lapsed before its answer came: nothing has been started. */
  async #giveBackLapsed(response: ReserveResponse): Promise<Step> {
    const token = response.lease?.fencingToken ?? 0n;
    const released = await this.#release(token, 'the lease lapsed before its answer arrived');
    if (released && ++this.#lostAttempts <= MAX_LOST_ATTEMPTS) return undefined;
    return ended(stoppedBy(response));
  }

  // --- Looking up ---------------------------------------------------------------------------------

  async #lookUpAnswer(response: ReserveResponse): Promise<Step> {
    const { lookUp } = this.context;
    const { operation } = response;
    if (lookUp === undefined || operation === undefined) return ended(stoppedBy(response));
    const found = await lookUp(operation);
    if (found.found !== 'HAPPENED') return ended(stoppedBy(response));
    // How it ended is known here; only the answer was not.
    const known = operation.verdict !== 'UNSPECIFIED';
    const verdict = known ? operation.verdict : (found.verdict ?? 'SUCCEEDED');
    return ended(replayed(operation, found.response, verdict));
  }

  async #reconcile(response: ReserveResponse): Promise<Step> {
    const { lookUp, request } = this.context;
    if (lookUp === undefined || ++this.#lookUps > MAX_LOOK_UPS) return ended(stoppedBy(response));
    const recorded = response.operation;
    const found = await lookUp(recorded ?? blankOperation(request.id));
    if (found.found === 'HAPPENED') {
      if (recorded !== undefined) return this.#settleFound(recorded, found);
      const verdict = found.verdict ?? 'SUCCEEDED';
      return ended(replayed(blankOperation(request.id), found.response, verdict));
    }
    if (found.found === 'NOT_THERE') {
      if (recorded !== undefined) {
        return this.#settleNotThere(response, recorded, found.evidence ?? '');
      }
      this.#startOver = true;
      return undefined;
    }
    return ended(stoppedBy(response));
  }

  #resolve(resolve: ResolveRequest): Promise<Outcome<Operation>> {
    const { connection } = this.context;
    return this.context.settle((call) => connection.resolve(resolve, call));
  }

  async #settleFound(operation: Operation, found: Happened): Promise<Step> {
    const { request, reconciler } = this.context;
    const verdict = found.verdict ?? 'SUCCEEDED';
    const result = {
      ...replayed(operation, found.response, verdict),
      detail: 'the look-up found that it had happened',
      recordOpen: true,
    };
    if (reconciler === '') return ended(result);
    const { response: resolved, error } = await this.#resolve({
      id: request.id,
      resolution: { kind: 'COMPLETED', verdict, response: found.response },
      actor: reconciler,
      reason: found.evidence ?? '',
      providerRequestId: found.providerRequestId ?? '',
      etag: operation.etag,
    });
    if (resolved !== undefined) return ended({ ...result, operation: resolved, recordOpen: false });
    return ended({ ...result, refusal: error.refusal });
  }

  async #settleNotThere(
    response: ReserveResponse,
    operation: Operation,
    evidence: string,
  ): Promise<Step> {
    const { request, reconciler, environment, signal } = this.context;
    if (reconciler === '') return ended(stoppedBy(response));
    const { error } = await this.#resolve({
      id: request.id,
      resolution: { kind: 'NOT_EXECUTED' },
      actor: reconciler,
      reason: evidence,
      etag: operation.etag,
    });
    if (error === undefined) return undefined; // free: the next Reserve gets it
    const refusal: Refusal | undefined = error.refusal;
    const delay = refusal?.retryAfter ?? 0;
    const passes = refusal !== undefined && NOT_SETTLED_YET.includes(refusal.reason);
    if (passes && delay < this.#waitLeft()) {
      await environment.sleep(delay, signal);
      return undefined;
    }
    const result = stoppedBy(response);
    const retryAfter = refusal === undefined ? result.retryAfter : refusal.retryAfter;
    return ended({ ...result, refusal, retryAfter });
  }
}
