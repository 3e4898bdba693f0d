/**
 * Goes through the whole protocol once: `node smoke.mjs [--hold] [--brief]`.
 *
 * It starts runs, does their steps and watches them, all in one process, and prints each fact that
 * it finds as a line of JSON. With --hold it waits for Enter in the middle: time to kill the server.
 * It may start again before or after. --brief leaves out the task that takes four seconds.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import { PLAN, moments, steps, task } from './agent.mjs';
import { Client } from './client.mjs';
import { date, duration, payload, value } from './messages.mjs';
import { Watch } from './watch.mjs';
import { Worker } from './worker.mjs';

/** @typedef {import('./messages.mjs').Message} Message */

/** Runs of this process and no others' come here. */
const QUEUE = `smoke-${randomUUID()}`;
const HOLD = process.argv.includes('--hold');
const BRIEF = process.argv.includes('--brief');

/** @param {string} name @param {Message} [about] */
function fact(name, about = {}) {
  console.log(JSON.stringify({ fact: name, ...about }));
}

/** @param {Client} client */
function startWorker(client) {
  const worker = new Worker(client, { workerId: QUEUE, queues: [QUEUE], concurrency: 4, steps });
  worker.on('welcome', ({ held }) => {
    const states = held.map((/** @type {Message} */ { status }) => status);
    fact('welcome', { connection: worker.connections, held: states });
  });
  worker.on('disconnect', ({ why }) => fact('disconnect', { why }));
  worker.on('outcome', ({ held: { assignment } }) => {
    fact('outcome', { task: assignment.task?.taskId, connected: worker.isConnected });
  });
  worker.on('ack', ({ ack: { lease: { runId, executionId }, status }, way }) => {
    fact('ack', { runId, executionId, status, way });
  });
  worker.on('cancellation', ({ lease: { runId }, reason }) => fact('cancellation', { runId, reason }));
  worker.on('lease', ({ held: { assignment }, state }) => {
    if (assignment.task?.type === 'slow' && state.status === 'LEASE_STATUS_LIVE') {
      moments.emit('beat');
    }
  });
  return { worker, working: worker.run() };
}

/** Start a run. @param {Client} client @param {string} goal @param {Message} request */
async function start(client, goal, request) {
  const { run, created } = await client.call('StartRun', { goal, queue: QUEUE, ...request });
  const { runId } = run.spec;
  // Not created: an earlier call had started it, and its answer was lost.
  fact('started', { goal, runId, created, at: date(run.createdTime) });
  return runId;
}

/** Watch a run to its end. @param {Client} client @param {string} runId @param {bigint} [after] */
async function follow(client, runId, after = 0n) {
  const request = { progressInterval: duration(1_000) };
  const watch = new Watch(client, runId, { after, request });
  const numbers = [];
  for await (const event of watch) {
    numbers.push(Number(event.number));
  }
  const { losses, run } = watch;
  fact('watched', { runId, after: String(after), numbers, losses, status: run?.status });
}

/** @param {Client} client @param {string} runId @param {string[]} [taskIds] default: all */
async function printResults(client, runId, taskIds = []) {
  const { results, runResult } = await client.call('ListResults', { runId, taskIds });
  const byTask = Object.fromEntries(
    results.map((/** @type {Message} */ each) => [each.taskId, value(each.payload)]),
  );
  fact('results', { runId, tasks: byTask, run: value(runResult?.payload) });
}

/** A graph of tasks of ours; in its middle the connection may be lost. @param {Client} client */
async function runPlan(client) {
  const holding = once(moments, 'holding');
  const plan = { tasks: PLAN.tasks.filter(({ type }) => !(BRIEF && type === 'slow')) };
  const runId = await start(client, 'do my plan', { plan });
  const watching = follow(client, runId);
  await holding;
  if (HOLD) {
    const input = createInterface({ input: process.stdin });
    fact('holding', { runId });
    await once(input, 'line');
    input.close();
  }
  moments.emit('go');
  // Perhaps there is no server now: the call waits for one.
  await Promise.all([runWholeLoop(client), watching]);
  await follow(client, runId, 5n);
  await printResults(client, runId);
}

/** A run that plans by itself. @param {Client} client */
async function runWholeLoop(client) {
  const input = payload({ one: 'to be or not', two: 'to be' });
  const runId = await start(client, 'plan yourself', { input });
  await follow(client, runId);
  await printResults(client, runId);
}

/** A run whose results are too large to come along with an assignment. @param {Client} client */
async function runHeavily(client) {
  const tasks = [
    task('big-1', 'big'),
    task('big-2', 'big'),
    task('weigh', 'weigh', undefined, { dependsOn: ['big-1', 'big-2'] }),
  ];
  const runId = await start(client, 'be heavy', { plan: { tasks } });
  await follow(client, runId);
  await printResults(client, runId, ['weigh']);
}

/** A run whose worker is told to stop. @param {Client} client */
async function runAndCancel(client) {
  const endless = once(moments, 'endless');
  const runId = await start(client, 'be cancelled', { plan: { tasks: [task('t', 'endless')] } });
  await endless;
  await client.call('CancelRun', { runId, reason: 'enough of it' });
  await follow(client, runId);
}

/**
 * A step that one worker hands back, and another does.
 *
 * @param {Client} client
 * @param {Worker} worker
 */
async function handOver(client, worker) {
  const patient = once(moments, 'patient');
  const runId = await start(client, 'be handed over', { plan: { tasks: [task('t', 'patient')] } });
  await patient;
  await worker.drain(0);
  const { worker: second, working } = startWorker(client);
  /** @type {Message[]} */
  const outcomes = [];
  second.on('ack', ({ outcome }) => outcomes.push(outcome));
  await follow(client, runId);
  await printResults(client, runId);
  // An outcome may be sent twice, by whichever way: the second time it changes nothing.
  const { acks } = await client.call('ReportOutcomes', { outcomes });
  fact('sent-again', { statuses: acks.map((/** @type {Message} */ { status }) => status) });
  await second.drain(1_000);
  await working;
  return runId;
}

/** A step that does nothing for too long is done again. @param {Client} client */
async function idle(client) {
  const more = { idleTimeout: duration(500), retry: { maxAttempts: 2, initialBackoff: duration(0) } };
  const runId = await start(client, 'be idle', { plan: { tasks: [task('t', 'idle', null, more)] } });
  await follow(client, runId);
}

/** A worker that drains ends what it does, and is given nothing else. @param {Client} client */
async function leave(client) {
  const { worker, working } = startWorker(client);
  const holding = once(moments, 'holding');
  const tasks = [task('t', 'hold'), task('next', 'count', 'one', { dependsOn: ['t'] })];
  const runId = await start(client, 'be left', { plan: { tasks } });
  await holding;
  const draining = worker.drain(30_000);
  moments.emit('go');
  await Promise.all([draining, working]);
  fact('drained', { runId });
  const second = startWorker(client);
  await follow(client, runId);
  await second.worker.drain(1_000);
  await second.working;
}

/** The newest process of a worker's id wins; the older one is told. @param {Client} client */
async function replaceWorker(client) {
  const older = startWorker(client);
  await once(older.worker, 'welcome');
  const newer = startWorker(client);
  await older.working.catch(({ reason }) => fact('replaced', { reason }));
  await newer.worker.drain(1_000);
  await newer.working;
}

/** What is refused, and how that reads. @param {Client} client @param {string} runId */
async function printErrors(client, runId) {
  const cycle = [
    task('a', 'count', '', { dependsOn: ['b'] }),
    task('b', 'count', '', { dependsOn: ['a'] }),
  ];
  const stranger = new Client({ target: client.target, token: 'wrong' });
  const attempts = {
    'unknown run': () => client.call('GetRun', { runId: randomUUID() }),
    cycle: () => client.call('StartRun', { goal: 'x', plan: { tasks: cycle } }),
    limit: () => client.call('StartRun', { goal: 'x', maxParallel: 1000 }),
    'wrong token': () => stranger.call('GetServerInfo'),
    'future cursor': () => follow(client, runId, 1_000n),
    'unknown field': () => client.call('GetRun', { run_id: 'x' }),
    'unknown value': () => client.call('ListRuns', { statuses: ['RUNNING'] }),
  };
  for (const [name, attempt] of Object.entries(attempts)) {
    try {
      await attempt();
    } catch (error) {
      const { code, reason, metadata, violations, message } = /** @type {any} */ (error);
      fact('refused', { name, code, reason, metadata, violations, message });
    }
  }
  stranger.close();
}

async function main() {
  const client = new Client();
  const info = await client.call('GetServerInfo', {}, { patienceMs: 5_000 });
  fact('server', { version: info.version, durability: info.store.durability });
  const { worker, working } = startWorker(client);
  await runPlan(client);
  await runHeavily(client);
  await runAndCancel(client);
  await idle(client);
  const runId = await handOver(client, worker);
  await working;
  await leave(client);
  await replaceWorker(client);
  await printErrors(client, runId);
  client.close();
  fact('done');
}

await main();
