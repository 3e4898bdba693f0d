/** The steps that the smoke program's worker does: a plan, tasks by type, a reflection, a synthesis. */
import { EventEmitter, once } from 'node:events';

import { duration, payload } from './messages.mjs';

/** @typedef {import('./messages.mjs').Message} Message */
/** @typedef {import('./steps.mjs').Step} Step */

/**
 * Says which task waits (`holding`, `endless`, `patient`), and is told when one may go on (`go`,
 * `beat`).
 */
export const moments = new EventEmitter();

/** @type {Record<string, (step: Step) => Promise<any>>} */
const tasks = {
  async count({ input }) {
    return input.split(' ').length;
  },

  async sum({ results, usage }) {
    usage.inputTokens = '900719925474099'; // 64 bits are a string.
    return Object.values(results).reduce((total, each) => total + each, 0);
  },

  /** Waits until it is told to go on. */
  async hold({ heartbeat }) {
    const go = once(moments, 'go');
    await heartbeat({ waits: 'for go' });
    moments.emit('holding');
    await go;
    return 0;
  },

  /** Outlives its lease, which is three heartbeats long. */
  async slow() {
    for (let beats = 0; beats < 4; beats += 1) {
      await once(moments, 'beat');
    }
    return 'outlived its lease';
  },

  async flaky({ attempt }) {
    if (attempt === 1) {
      throw Object.assign(new Error('it fails the first time'), { name: 'Flaky' });
    }
    return { attempt };
  },

  /** Must not be done twice: the worker says that it begins, and waits until that is committed. */
  async pay({ idempotencyKey }) {
    return { paid: idempotencyKey };
  },

  /** Bytes, which are no JSON. */
  async big() {
    return Buffer.alloc(700_000, 1);
  },

  async weigh({ results }) {
    return Object.values(results).reduce((total, bytes) => total + bytes.length, 0);
  },

  /** Does nothing the first time, for longer than its idle time-out. */
  async idle({ attempt, signal }) {
    if (attempt === 1) {
      await once(signal, 'abort');
    }
    return { attempt };
  },

  /** Ends when nobody wants it any more. */
  async endless({ signal }) {
    moments.emit('endless');
    await once(signal, 'abort');
  },

  /** Is too much for the first worker that has it. */
  async patient({ attempt, signal }) {
    if (attempt === 1) {
      moments.emit('patient');
      await once(signal, 'abort');
    }
    return { attempt };
  },
};

/** @type {import('./steps.mjs').Steps} */
export const steps = {
  async plan({ input }) {
    const counts = Object.entries(input).map(([taskId, text]) => task(taskId, 'count', text));
    return { tasks: counts, reason: 'a task for each text' };
  },

  async task(step) {
    return tasks[step.task?.type](step);
  },

  async reflect({ run }) {
    if (run.iteration === 1) {
      const plan = { tasks: [task('more', 'count', 'three more words')] };
      return { decision: 'DECISION_CONTINUE', plan, reason: 'not enough' };
    }
    return { decision: 'DECISION_FINISH', reason: 'enough' };
  },

  async synthesize({ results }) {
    return { words: Object.values(results).reduce((total, each) => total + each, 0) };
  },
};

/** @param {string} taskId @param {string} type @param {unknown} [input] @param {Message} [more] */
export function task(taskId, type, input, more = {}) {
  return { taskId, type, input: payload(input), ...more };
}

/** A plan to start a run with. */
export const PLAN = {
  tasks: [
    task('left', 'count', 'to be or not'),
    task('right', 'count', 'to be'),
    task('hold', 'hold', undefined, { dependsOn: ['left', 'right'] }),
    task('sum', 'sum', undefined, { dependsOn: ['left', 'right', 'hold'] }),
    task('slow', 'slow', undefined, { dependsOn: ['sum'], heartbeatTimeout: duration(3_000) }),
    task('flaky', 'flaky', undefined, {
      dependsOn: ['sum'],
      retry: { maxAttempts: 2, initialBackoff: duration(0) },
    }),
    task('pay', 'pay', undefined, { dependsOn: ['flaky'], effect: 'EFFECT_AT_MOST_ONCE' }),
  ],
};
