/**
 * A run's events, each once and in order, over however many connections that takes.
 *
 *     const watch = new Watch(client, runId);
 *     for await (const event of watch) console.log(event.number, event.type);
 *     console.log(watch.run.status);
 *
 * A stream ends by a message. One that breaks, or ends without it, is opened again after the last event
 * that was handed on, so nothing is lost and nothing comes twice.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { backoff } from './client.mjs';
import { StepwellError } from './errors.mjs';

/** @typedef {import('./messages.mjs').Message} Message */

const RECONNECT_MS = 60_000;

export class Watch {
  #client;
  #request;

  /**
   * @param {import('./client.mjs').Client} client
   * @param {string} runId
   * @param {{after?: bigint, request?: Message}} [options] `after` is the number of the last event that
   *   was seen; `request` are other fields of WatchRunRequest, such as `types`
   */
  constructor(client, runId, { after = 0n, request = {} } = {}) {
    this.#client = client;
    this.#request = { ...request, runId };
    /** The number of the last event that was handed on: what to go on after, also another day. */
    this.cursor = after;
    /** Why each stream but the last came to its end. @type {string[]} */
    this.losses = [];
    /** How often an idle stream said that it lives. */
    this.signs = 0;
    /** The run as it ended. @type {Message | null} */
    this.run = null;
  }

  async *[Symbol.asyncIterator]() {
    let failures = 0;
    let lostSince = 0;
    while (true) {
      const before = this.cursor;
      const loss = yield* this.#stream();
      if (loss === null) {
        return;
      }
      this.losses.push(loss.reason || loss.code);
      if (this.cursor > before || lostSince === 0) {
        failures = 0;
        lostSince = Date.now();
      }
      if (Date.now() - lostSince > RECONNECT_MS) {
        throw loss;
      }
      failures += 1;
      await sleep(backoff(failures));
    }
  }

  /**
   * Read one stream.
   *
   * @returns {AsyncGenerator<Message, StepwellError | null>} null: the run has ended; else what was lost
   */
  async *#stream() {
    const request = { ...this.#request, resumeToken: String(this.cursor) };
    const stream = this.#client.stream('WatchRun', request);
    try {
      for await (const response of stream) {
        if (response.message === 'end') {
          return this.#ended(response.end);
        }
        if (response.message === 'progress') {
          this.signs += 1;
          this.cursor = BigInt(response.progress.resumeToken);
        }
        for (const event of response.events?.events ?? []) {
          this.cursor = BigInt(event.number);
          yield event;
        }
        if (response.events) {
          this.cursor = BigInt(response.events.resumeToken); // It counts what filters left out.
        }
      }
      return new StepwellError('the stream ended without a word', { reason: 'END_OF_FILE' });
    } catch (error) {
      const problem = StepwellError.from(error);
      if (!problem.isLoss) {
        throw problem;
      }
      return problem;
    } finally {
      stream.cancel();
    }
  }

  /** @param {Message} end */
  #ended({ reason, run }) {
    const word = reason.replace('WATCH_END_REASON_', '');
    if (word === 'FINISHED') {
      this.run = run;
      return null;
    }
    const error = new StepwellError(`the server ended the watch: ${word}`, { reason: word });
    if (word === 'PURGED') {
      throw error;
    }
    return error; // DRAINING, SLOW_CONSUMER: come again.
  }
}
