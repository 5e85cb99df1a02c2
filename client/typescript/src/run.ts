/** One run: the protocol around one call of fn. See client.ts for what it promises. */
import { Acquirer } from './acquire.js';
import { failed } from './classification.js';
import type { EffectResult } from './classification.js';
import type { HeldAttempt } from './held_attempt.js';
import { NotDispatched } from './held_attempt.js';
import { mendedEffect } from './mend.js';
import { Reporter, judgeEffect, unrecorded } from './report.js';
import type { Judgement } from './report.js';
import { stopped } from './run_context.js';
import type { RunContext } from './run_context.js';
import type { RunResult, RunStop } from './run_types.js';
import { UnprotectedAttempt } from './unprotected_attempt.js';

const TIMEOUT_TOO_LONG =
  'callTimeout: longer than the lease, and renewal is off; shorten it, ask for a longer ' +
  'leaseDuration, or leave renewal on';

const invalid = (why: string): RunStop => stopped('INVALID', 'STOP', why);

function whatIsWrong({ request, wait, renew }: RunContext): string | undefined {
  const { id, leaseDuration, callTimeout } = request;
  if (id.namespace === '') return 'id.namespace: empty; name the namespace';
  if (id.key === '') {
    return "id.key: empty; make the operation's key before its first try, and save it";
  }
  if (!(wait >= 0)) return 'wait: negative; zero does not wait at all';
  if (leaseDuration !== undefined && !(leaseDuration > 0)) {
    return "leaseDuration: not above zero; leave it unset for the namespace's default";
  }
  if (callTimeout === undefined) return undefined;
  if (!(callTimeout > 0)) {
    return 'callTimeout: not above zero; leave it unset for no limit but the lease';
  }
  if (!renew && leaseDuration !== undefined && callTimeout > leaseDuration) return TIMEOUT_TOO_LONG;
  return undefined;
}

async function runUnprotected(context: RunContext): Promise<RunResult> {
  const { request, environment, timer, signal } = context;
  const attempt = new UnprotectedAttempt(request, environment, timer, signal);
  let effect: EffectResult;
  try {
    effect = await callFn(context, attempt);
  } finally {
    attempt.end();
  }
  const result = unrecorded(judgeEffect(effect, attempt, context));
  const more = result.detail === '' ? '' : `; ${result.detail}`;
  const detail = `ran without protection, as the service could not be reached${more}`;
  return { ...result, unprotected: true, detail };
}

/** Undefined: fn may be called. */
async function freeInstead(context: RunContext, held: HeldAttempt): Promise<RunStop | undefined> {
  const reporter = new Reporter(context, held);
  if (context.isCancelled) {
    const why = 'cancelled by the caller before the effect was started';
    const result = stopped('CANCELLED', 'RESERVE_AGAIN', why);
    return reporter.free(result, 'cancelled before the effect was started');
  }
  // The namespace's default lease is not known before.
  const { callTimeout } = context.request;
  if (!context.renew && callTimeout !== undefined && callTimeout > held.granted) {
    return reporter.free(invalid(TIMEOUT_TOO_LONG), 'the call would outlast the lease');
  }
  return undefined;
}

/** fn's result; that it was not let dispatch is one, too. */
async function callFn(
  context: RunContext,
  attempt: HeldAttempt | UnprotectedAttempt,
): Promise<EffectResult> {
  try {
    return mendedEffect(await context.fn(attempt));
  } catch (thrown) {
    if (!(thrown instanceof NotDispatched) || attempt.mayHaveStarted) throw thrown;
    return failed(thrown.code, thrown.message);
  }
}

async function callAndReport(context: RunContext, held: HeldAttempt): Promise<RunResult> {
  const reporter = new Reporter(context, held);
  held.start();
  try {
    let judgement: Judgement;
    try {
      const effect = await callFn(context, held);
      held.letGoOfFn();
      judgement = await reporter.judge(effect);
    } catch (thrown) {
      // What fn did before it threw is not known. The exception goes on to the caller.
      held.letGoOfFn();
      await reporter.reportException();
      throw thrown;
    }
    return await reporter.report(judgement);
  } finally {
    held.stopRenewing();
  }
}

export async function runOnce(context: RunContext): Promise<RunResult> {
  const wrong = whatIsWrong(context);
  if (wrong !== undefined) return invalid(wrong);
  const acquisition = await new Acquirer(context).acquire();
  switch (acquisition.kind) {
    case 'ended':
      return acquisition.result;
    case 'unprotected':
      return runUnprotected(context);
    case 'held': {
      const { held } = acquisition;
      return (await freeInstead(context, held)) ?? callAndReport(context, held);
    }
  }
}
