/** From an assignment to a function's arguments, and from what it returns to an outcome. */
import { payload, value } from './messages.mjs';

/** @typedef {import('./messages.mjs').Message} Message */
/** @typedef {import('./ledger.mjs').Held} Held */

/**
 * What a step's function is given.
 *
 * @typedef {object} Step
 * @property {Message} run as of the lease: `run.goal`, `run.iteration`
 * @property {Message | null} task the TaskSpec, for a TASK: `task.taskId`, `task.type`, `task.prompt`
 * @property {number} attempt counts from 1
 * @property {any} input the task's, else the run's
 * @property {Record<string, any>} results of the tasks that it builds on, by task id
 * @property {string} idempotencyKey the same in all attempts, for the systems that it calls
 * @property {any} previousProgress the last that an interrupted attempt reported
 * @property {Message | null} previousFailure why the attempt before failed
 * @property {AbortSignal} signal aborted when nobody waits for the outcome
 * @property {(progress: unknown) => Promise<void>} heartbeat says how far it is
 * @property {Message} usage what it used up; to be counted up by the function
 */

/**
 * Functions by what is asked for. `plan` returns `{tasks, reason}`, `reflect` a
 * `{decision, plan, reason}`, the others their result, as JSON or bytes.
 *
 * @typedef {{plan?: (step: Step) => Promise<any>, task?: (step: Step) => Promise<any>,
 *   reflect?: (step: Step) => Promise<any>, synthesize?: (step: Step) => Promise<any>}} Steps
 */

/** Thrown by a function: the step is handed back undone, and no attempt is spent. */
export class Release extends Error {}

/**
 * Do the step of an assignment.
 *
 * @param {import('./client.mjs').Client} client
 * @param {Steps} steps
 * @param {Held} held
 * @param {(progress: Message | null) => Promise<void>} heartbeat
 * @returns {Promise<Message>} what an Outcome says beside whose it is
 */
export async function perform(client, steps, held, heartbeat) {
  const { assignment } = held;
  const kind = assignment.execution.kind.replace('STEP_KIND_', '').toLowerCase();
  /** @type {Step} */
  const step = {
    run: assignment.run,
    task: assignment.task,
    attempt: assignment.execution.attempt,
    input: value(assignment.task ? assignment.task.input : assignment.runInput),
    results: await resultsOf(client, held),
    idempotencyKey: assignment.idempotencyKey,
    previousProgress: value(assignment.previousProgress),
    previousFailure: assignment.previousFailure,
    signal: held.signal,
    heartbeat: (progress) => heartbeat(payload(progress)),
    usage: {},
  };
  const returned = await steps[/** @type {keyof Steps} */ (kind)]?.(step);
  return { usage: step.usage, ...shaped(kind, returned) };
}

/** @param {string} kind @param {any} returned @returns {Message} */
function shaped(kind, returned) {
  if (kind === 'plan') {
    const { tasks, reason } = returned;
    return { planned: { plan: { tasks }, reason } };
  }
  return kind === 'reflect' ? { reflected: returned } : { completed: { result: payload(returned) } };
}

/**
 * The outcome of a function that threw: data, which the run's retry policy judges.
 *
 * @param {any} error
 * @returns {Message}
 */
export function failureOf(error) {
  if (error instanceof Release) {
    return { released: { reason: clipped(error.message, 1_000) } };
  }
  const failure = {
    kind: String(error?.name || 'Error').slice(0, 128),
    message: clipped(error?.message ?? error, 16_000),
    details: clipped(error?.stack ?? '', 16_000),
    retryable: error?.retryable !== false,
  };
  return { failed: { failure } };
}

/** Limits count bytes, of which a character has four at most. @param {any} text @param {number} max */
function clipped(text, max) {
  // Half a surrogate pair would make the whole message unreadable.
  return String(text).slice(0, max).toWellFormed();
}

/**
 * All results that the step is shown: what found no room in its assignment is read.
 *
 * @param {import('./client.mjs').Client} client
 * @param {Held} held
 */
async function resultsOf(client, { lease, assignment }) {
  const entries = assignment.resultsBefore
    ? await pagesOf(client, { lease })
    : assignment.results;
  /** @type {Record<string, any>} */
  const results = {};
  for (const { taskId, payload: inline, byReference } of entries) {
    results[taskId] = value(inline);
    if (byReference) {
      const [found] = await pagesOf(client, { lease, taskIds: [taskId] });
      results[taskId] = value(found?.payload);
    }
  }
  return results;
}

/**
 * @param {import('./client.mjs').Client} client
 * @param {Message} request
 */
async function pagesOf(client, request) {
  /** @type {Message[]} */
  const results = [];
  let pageToken = '';
  do {
    const page = await client.call('ReadResults', { ...request, pageToken });
    if (page.lease.status === 'LEASE_STATUS_LOST') {
      throw new Error('the lease is lost');
    }
    results.push(...page.results);
    pageToken = page.nextPageToken;
  } while (pageToken);
  return results;
}
