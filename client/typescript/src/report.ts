/** The second half of a run: what the result of fn means, and telling the service. */
import { unknown } from './classification.js';
import type { Classification, EffectResult } from './classification.js';
import type { MarkUnresolvedResponse, ReleaseResponse } from './connection.js';
import { blankOperation } from './convert.js';
import type { HeldAttempt } from './held_attempt.js';
import type { Outcome } from './retry.js';
import { stopped } from './run_context.js';
import type { RunContext } from './run_context.js';
import type { RunAnswer, RunResult, RunStop } from './run_types.js';
import { STATUS_CODES } from './types.js';
import type { Operation } from './types.js';

export interface Judgement {
  readonly classification: Classification;
  readonly effect: EffectResult;
  /** What a look-up said that found no answer, for the history. */
  readonly evidence: string;
}

const NOTHING_HAPPENED: Classification = {
  disposition: 'NOTHING_HAPPENED',
  cause: 'OTHER',
  reconcileFirst: false,
};

function classify(effect: EffectResult, context: RunContext): Classification {
  if (effect.certainty === 'NOTHING_HAPPENED') return NOTHING_HAPPENED;
  const classification = context.classify(effect);
  if (effect.certainty === undefined) return classification;
  return classification.disposition === 'UNKNOWN' ? classification : unknown();
}

/** Asks the classifier of the options, minding what the caller is certain of. A final failure that
 * came as a status becomes an answer that can be replayed. */
export function judgeEffect(
  result: EffectResult,
  attempt: { readonly number: number; readonly mayHaveStarted: boolean },
  context: RunContext,
): Judgement {
  const effect: EffectResult = { ...result, attempt: attempt.number };
  // Nothing can have been sent: fn never got as far as dispatch.
  const notStarted =
    !attempt.mayHaveStarted && effect.response === undefined && effect.certainty === undefined;
  if (notStarted) return { classification: NOTHING_HAPPENED, effect, evidence: '' };
  const classification = classify(effect, context);
  const { disposition } = classification;
  const final = disposition === 'SUCCEEDED' || disposition === 'FAILED';
  const { response, error } = effect;
  if (!final || response !== undefined || error === undefined || error.code === 'OK') {
    return { classification, effect, evidence: '' };
  }
  const grpcCode = STATUS_CODES.indexOf(error.code);
  const asAnswer = { grpcCode, statusMessage: error.message };
  return { classification, effect: { ...effect, response: asAnswer }, evidence: '' };
}

const errorOf = ({ error }: EffectResult) => (error?.code === 'OK' ? undefined : error);

function answered(effect: EffectResult, verdict: 'SUCCEEDED' | 'FAILED'): RunAnswer {
  return {
    ...stopped('INVALID', 'UNSPECIFIED', ''),
    stop: undefined,
    response: effect.response ?? {},
    verdict,
    effectError: errorOf(effect),
  };
}

/** What is left of an effect that was no answer. */
function notAnswered(result: RunStop, effect: EffectResult): RunStop {
  return {
    ...result,
    response: effect.response,
    effectError: errorOf(effect),
    retryAfter: effect.retryAfter,
  };
}

const nothingHappened = (effect: EffectResult): RunStop =>
  notAnswered(
    stopped(
      'NOTHING_HAPPENED',
      'RESERVE_AGAIN',
      'the effect did not happen; it may be tried again',
    ),
    effect,
  );

const notKnown = (effect: EffectResult): RunStop =>
  notAnswered(
    stopped('UNRESOLVED', 'RECONCILE_FIRST', 'whether the effect happened is not known'),
    effect,
  );

/** What the caller of an effect without a record gets. */
export function unrecorded({ classification, effect }: Judgement): RunResult {
  switch (classification.disposition) {
    case 'SUCCEEDED':
    case 'FAILED':
      return answered(effect, classification.disposition);
    case 'NOTHING_HAPPENED':
      return nothingHappened(effect);
    case 'UNKNOWN':
      return notKnown(effect);
  }
}

export class Reporter {
  constructor(
    private readonly context: RunContext,
    private readonly held: HeldAttempt,
  ) {}

  /** What the effect means; asks the caller's classifier and, where the outcome is unknown, the
   * look-up. */
  async judge(effect: EffectResult): Promise<Judgement> {
    const judgement = judgeEffect(effect, this.held, this.context);
    const { lookUp } = this.context;
    if (judgement.classification.disposition !== 'UNKNOWN' || lookUp === undefined) return judgement;

    const found = await lookUp(this.#operation(judgement.effect));
    // Not there yet is not "did not happen": the call may still be on its way.
    if (found.found !== 'HAPPENED') return { ...judgement, evidence: found.evidence ?? '' };
    const disposition = found.verdict === 'FAILED' ? 'FAILED' : 'SUCCEEDED';
    const providerRequestId = found.providerRequestId || judgement.effect.providerRequestId;
    return {
      classification: { ...judgement.classification, disposition },
      effect: { ...judgement.effect, response: found.response, providerRequestId },
      evidence: '',
    };
  }

  #operation(effect: EffectResult): Operation {
    return {
      ...blankOperation(this.context.request.id),
      state: 'PENDING',
      attempt: this.held.number,
      dispatched: true,
      providerRequestId: effect.providerRequestId ?? '',
    };
  }

  /** Reports it, and returns what the caller gets. */
  report(judgement: Judgement): Promise<RunResult> {
    const { disposition } = judgement.classification;
    switch (disposition) {
      case 'SUCCEEDED':
      case 'FAILED':
        return this.#reportEnded(judgement.effect, disposition);
      case 'NOTHING_HAPPENED':
        return this.#reportNothingHappened(judgement.effect);
      case 'UNKNOWN':
        return this.#reportUnknown(judgement);
    }
  }

  /** Whatever becomes of the record, the caller gets the real answer. */
  async #reportEnded(effect: EffectResult, verdict: 'SUCCEEDED' | 'FAILED'): Promise<RunResult> {
    const { connection, request } = this.context;
    const complete = {
      id: request.id,
      fencingToken: this.held.fencingToken,
      verdict,
      response: effect.response,
      providerRequestId: effect.providerRequestId ?? '',
    };
    const { response, error } = await this.context.settle((call) =>
      connection.complete(complete, call),
    );
    const result: RunAnswer = { ...answered(effect, verdict), nextStep: 'USE_RESPONSE' };
    if (response !== undefined) return { ...result, operation: response.operation };
    const detail = `it ended, and the service has not recorded how: ${error.message}`;
    return { ...result, recordOpen: true, refusal: error.refusal, detail };
  }

  #reportNothingHappened(effect: EffectResult): Promise<RunResult> {
    const result = nothingHappened(effect);
    const stop = this.context.isCancelled ? 'CANCELLED' : result.stop;
    return this.free({ ...result, stop }, effect.error?.message ?? '');
  }

  /** Instead of calling fn. */
  async free(result: RunStop, detail: string): Promise<RunStop> {
    const { response, error } = await this.#release(detail);
    if (error !== undefined) {
      const open = `${result.detail}; the service has not recorded that: ${error.message}`;
      return { ...result, recordOpen: true, refusal: error.refusal, detail: open };
    }
    if (response.state !== 'UNRESOLVED') return result;
    const stop = result.stop === 'NOTHING_HAPPENED' ? 'UNRESOLVED' : result.stop;
    const unknownStill = `${result.detail}; what an earlier attempt did is still unknown`;
    return { ...result, stop, detail: unknownStill };
  }

  async #reportUnknown(judgement: Judgement): Promise<RunResult> {
    const { response, error } = await this.#markUnresolved(judgement);
    const result = notKnown(judgement.effect);
    if (response !== undefined) {
      const { operation, nextStep, retryAfter } = response;
      return { ...result, operation, nextStep, retryAfter };
    }
    const detail = `${result.detail}, and the service has not recorded that: ${error.message}`;
    return { ...result, recordOpen: true, refusal: error.refusal, detail };
  }

  /** Instead of judge and report, where fn (or the caller's classifier or look-up) threw. */
  async reportException(): Promise<void> {
    if (!this.held.mayHaveStarted) {
      await this.#release('an exception before the call was dispatched');
      return;
    }
    const effect: EffectResult = { error: { code: 'UNKNOWN', message: 'an exception' } };
    await this.#markUnresolved({ classification: unknown(), effect, evidence: '' });
  }

  #release(detail: string): Promise<Outcome<ReleaseResponse>> {
    const { connection, request } = this.context;
    const release = { id: request.id, fencingToken: this.held.fencingToken, detail };
    return this.context.settle((call) => connection.release(release, call));
  }

  #markUnresolved(judgement: Judgement): Promise<Outcome<MarkUnresolvedResponse>> {
    const { connection, request } = this.context;
    const { classification, effect, evidence } = judgement;
    const details = [effect.error?.message ?? '', evidence === '' ? '' : `look-up: ${evidence}`];
    const mark = {
      id: request.id,
      fencingToken: this.held.fencingToken,
      cause: classification.cause,
      detail: details.filter(Boolean).join('; '),
      providerRequestId: effect.providerRequestId ?? '',
      retryAfter: effect.retryAfter,
      reconcileFirst: classification.reconcileFirst,
    };
    return this.context.settle((call) => connection.markUnresolved(mark, call));
  }
}
