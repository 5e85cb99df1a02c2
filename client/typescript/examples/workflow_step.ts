/**
 * A step of a workflow engine: an engine that crashes runs a workflow again from its start, and every
 * step that has been done before is told what it answered then. The key of a step follows from the
 * workflow's id and the step's name, so that nothing has to be saved; what a step has found out half way
 * is saved with it.
 */
import { Client, answered, bodyText, bytesOf, deriveKey, failed, fingerprintBytes, randomKey } from '@idempotencyd/client';
import type { Attempt, EffectFunction } from '@idempotencyd/client';

import { connection, require, say } from './example.js';

class NotNow extends Error {}

class Workflow {
  constructor(
    private readonly client: Client,
    private readonly id: string,
  ) {}

  /** The answer of the step, now or then. Throws NotNow: run the workflow again later. */
  async step(name: string, input: string, effect: EffectFunction): Promise<string> {
    const result = await this.client.run(
      {
        id: { namespace: 'workflow', scope: 'engine-1', key: deriveKey(`step of ${name}`, this.id) },
        fingerprint: fingerprintBytes('STEP', name, input),
        operationRef: this.id,
        // A crash before the call goes out leaves nothing to find out.
        dispatchLater: true,
      },
      effect,
    );
    if (result.stop !== undefined) throw new NotNow(result.detail);
    return bodyText(result.response);
  }
}

const idempotency = connection();
const workflow = new Workflow(new Client(idempotency), randomKey());
const effects: string[] = [];
let crash = true;

const effect = (what: string) => async (attempt: Attempt) => {
  await attempt.dispatch();
  effects.push(what);
  return answered({ body: bytesOf(what) });
};

/** Dies half way in its first attempt, before anything is sent, and knows so in the next. */
async function label(attempt: Attempt) {
  if (crash) {
    await attempt.saveProgress('address checked');
    return failed('CANCELLED', 'crash');
  }
  const progress = Buffer.from(attempt.progress ?? []).toString();
  require(progress === 'address checked', 'the next attempt knows how far it was');
  return effect('label bought')(attempt);
}

async function run(): Promise<string> {
  const charged = await workflow.step('charge', '25.00', effect('card charged'));
  const labelled = await workflow.step('label', charged, label);
  return workflow.step('mail', labelled, effect('mail sent'));
}

const crashed = await run().catch((error: unknown) => error);
require(crashed instanceof NotNow, 'the engine crashed');
say(`the first run did ${effects.length} step`);
crash = false;
const mailed = await run();
require(mailed === 'mail sent', 'the second run went to the end');
require((await run()) === mailed, 'a third finds everything done');
say(`in three runs every step was done once: ${effects.join(', ')}`);
require(effects.join() === 'card charged,label bought,mail sent', 'once, and in order');
idempotency.close();
