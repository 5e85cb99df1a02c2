/**
 * A receiver of webhooks: every event is delivered at least once, often twice at the same time, and
 * handled once. The sender's id of the event is the key; the namespace (WEBHOOK_INBOX) needs no
 * fingerprint, remembers an event for longer than its sender tries, and lets a crashed handler run again.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Client, answerKeyProblem, answerRun, answered, classifyHttp, httpAnswer, parseKeyField, randomKey } from '@idempotencyd/client';
import type { HttpAnswer } from '@idempotencyd/client';

import { connection, require, say } from './example.js';

const idempotency = connection();
const client = new Client(idempotency);
let handled = 0;

/** The whole of a receiver; the function given to run is what must not happen twice. */
async function receive(sender: string, eventIds: readonly string[]): Promise<HttpAnswer> {
  const field = parseKeyField(eventIds);
  if (field.problem !== undefined) return answerKeyProblem(field.problem);
  const result = await client.run(
    // The sender as it was authenticated, never as the request names it.
    { id: { namespace: 'webhooks', scope: sender, key: field.key } },
    () => {
      ++handled;
      return answered(httpAnswer(204));
    },
    { classify: classifyHttp },
  );
  return answerRun(result);
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const sender = request.url === '/stripe' ? 'stripe' : 'another';
  const answer = await receive(sender, request.headersDistinct['event-id'] ?? []);
  response.writeHead(answer.status, answer.headers.map(([...entry]) => entry).flat());
  response.end(answer.body);
}

const server = createServer((request, response) => void serve(request, response));
await once(server.listen(0, '127.0.0.1'), 'listening');
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const deliver = (path: string, headers: Record<string, string>): Promise<Response> =>
  fetch(address + path, { method: 'POST', headers });

const event = { 'Event-Id': `evt_${randomKey()}` };
const deliveries = await Promise.all(Array.from({ length: 5 }, () => deliver('/stripe', event)));
say(`5 deliveries at once: ${deliveries.map(({ status }) => status).join(', ')}; handled: ${handled}`);
require(handled === 1 && deliveries.every(({ status }) => status === 204), 'all answered, one handled');
const marked = deliveries.filter(({ headers }) => headers.get('Idempotency-Replayed') === 'true');
require(marked.length === 4, 'replays are marked');

require((await deliver('/stripe', {})).status === 400, 'an event without an id is refused');
require((await deliver('/other', event)).status === 204, 'ids of two senders do not meet');
require(handled === 2, 'and are handled each');
server.close().closeAllConnections();
idempotency.close();
