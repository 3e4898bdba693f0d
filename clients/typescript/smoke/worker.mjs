/**
 * A worker: takes steps over a Work stream and reports what came of them, until it is drained.
 *
 *     const worker = new Worker(client, { workerId: 'words@host', steps: { task: count } });
 *     const working = worker.run();
 *     await worker.drain(30_000);
 *     await working;
 *
 * What it promises: no more steps at once than `concurrency`; an outcome is kept until the server
 * says that it is committed, and sent again after a reconnect, or without a stream where none comes
 * up; leases live on while the stream is down; a step that isn't wanted any more has its signal
 * aborted.
 *
 * It emits `welcome`, `disconnect`, `outcome`, `ack`, `lease` and `cancellation` for those who look.
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

import { backoff } from './client.mjs';
import { StepwellError } from './errors.mjs';
import { Heartbeats } from './heartbeats.mjs';
import { CONCURRENCY_MAX, Held, Ledger, keyOf } from './ledger.mjs';
import { checked, milliseconds } from './messages.mjs';
import { Release, failureOf, perform } from './steps.mjs';

/** @typedef {import('./messages.mjs').Message} Message */
/** @typedef {import('./steps.mjs').Steps} Steps */
/** @typedef {import('@grpc/grpc-js').ClientDuplexStream<Message, Message>} Stream */

const WELCOME_MS = 10_000;
/** How long a drain tries to report the last outcomes. */
const ACK_MS = 5_000;
const GOODBYE_MS = 1_000;

export class Worker extends EventEmitter {
  /** How often a server has welcomed this worker. */
  connections = 0;
  #client;
  #steps;
  #ledger;
  #heartbeats;
  #identity;
  #heartbeatMs = 10_000;
  #draining = new AbortController();
  /** The stream that is open, perhaps not welcomed yet. @type {Stream | null} */
  #call = null;
  /** The same once it is welcomed: what can be written to. @type {Stream | null} */
  #stream = null;
  #writing = false;

  /**
   * `workerId` is the same after a restart; two processes need two. `steps` are functions by what is
   * asked for; the worker takes no other steps.
   *
   * @param {import('./client.mjs').Client} client
   * @param {{workerId: string, steps: Steps, queues?: string[],
   *   tasks?: {type: string, role: string}[], version?: string, concurrency?: number}} options
   */
  constructor(client, { workerId, steps, queues = [], tasks = [], version = '', concurrency = 8 }) {
    super();
    this.#client = client;
    this.#steps = steps;
    this.#ledger = new Ledger(Math.min(concurrency, CONCURRENCY_MAX));
    this.#heartbeats = new Heartbeats(client, this.#ledger, (held, state) => {
      this.#leaseState(held, state);
    });
    const kinds = Object.keys(steps).map((name) => `STEP_KIND_${name.toUpperCase()}`);
    this.#identity = {
      workerId,
      instanceId: randomUUID(), // Another one in each process, the same at a reconnect.
      queues,
      tasks, // `*` is any; without a pattern, all.
      version,
      kinds,
      stages: kinds.filter((kind) => /REFLECT|SYNTHESIZE/.test(kind)),
    };
  }

  get isConnected() {
    return this.#stream !== null;
  }

  /** Serve until it drains; throws where no reconnect would help. */
  async run() {
    const draining = this.#draining.signal;
    let failures = 0;
    try {
      while (!draining.aborted) {
        const before = this.connections;
        const why = await this.#serve();
        this.emit('disconnect', { why });
        failures = this.connections > before ? 1 : failures + 1;
        if (failures > 1) {
          await this.#complete(); // A stream may fail where unary calls work.
        }
        await sleep(backoff(failures), null, { signal: draining }).catch(() => {});
      }
    } catch (error) {
      this.#heartbeats.stop();
      throw error;
    }
  }

  /**
   * Take no more steps, let those that run finish for so long, and hand back the rest.
   *
   * @param {number} graceMs
   */
  async drain(graceMs) {
    this.#draining.abort();
    // The stream stays, for what is left to be said; it says first that it drains, which revokes its credits.
    this.#ledger.draining = true;
    this.#flush();
    await this.#until(() => this.#ledger.running.size === 0, graceMs);
    for (const held of [...this.#ledger.running.values()]) {
      if (!held.begun) {
        this.#ledger.report(held, { released: { reason: 'the worker drains' } });
      }
      held.abandon('the worker drains');
    }
    this.#flush();
    await this.#until(() => this.#ledger.pending.size === 0 || this.#stream === null, ACK_MS);
    this.#call?.end();
    await this.#until(() => this.#call === null, GOODBYE_MS);
    this.#call?.cancel();
    const late = Date.now() + ACK_MS;
    for (let failures = 0; this.#ledger.pending.size && Date.now() < late; failures += 1) {
      await sleep(failures && backoff(failures));
      await this.#complete();
    }
    this.#heartbeats.stop();
  }

  /** @param {() => boolean} reached @param {number} ms */
  async #until(reached, ms) {
    const late = AbortSignal.timeout(ms);
    while (!reached() && !late.aborted) {
      await once(this, 'change', { signal: late }).catch(() => {});
    }
  }

  // The stream, again and again.

  /** Hold one stream; return why it ended. */
  async #serve() {
    const stream = (this.#call = this.#client.duplex('Work'));
    const late = setTimeout(() => stream.cancel(), WELCOME_MS);
    try {
      const held = this.#ledger.leases().map(({ lease }) => lease);
      stream.write(checked('Work', { hello: { ...this.#identity, held } }));
      for await (const response of stream) {
        if (response.welcome) {
          clearTimeout(late);
          this.#welcome(stream, response.welcome);
        }
        this.#take(response);
        if (response.end) {
          return ended(response.end);
        }
      }
      return 'END_OF_FILE';
    } catch (error) {
      const problem = StepwellError.from(error);
      if (!problem.isLoss) {
        throw problem;
      }
      return problem.reason || problem.code;
    } finally {
      clearTimeout(late);
      this.#call = this.#stream = null;
      stream.cancel();
      this.emit('change');
    }
  }

  /** @param {Stream} stream @param {Message} welcome */
  #welcome(stream, welcome) {
    this.connections += 1;
    this.#stream = stream;
    this.#writing = false;
    this.#heartbeatMs = milliseconds(welcome.heartbeatInterval);
    this.#ledger.newStream();
    this.emit('welcome', welcome);
    const byKey = new Map(this.#ledger.leases().map((held) => [held.key, held]));
    for (const state of welcome.held) {
      const held = byKey.get(keyOf(state.lease));
      if (held) {
        this.#leaseState(held, state);
      }
    }
  }

  /** @param {Message} response */
  #take({ acks, cancellations, assignments }) {
    for (const ack of acks) {
      this.#settle(ack, 'stream');
    }
    for (const cancellation of cancellations) {
      this.emit('cancellation', cancellation);
      this.#ledger.running.get(keyOf(cancellation.lease))?.abandon(cancellation.reason);
    }
    for (const assignment of assignments) {
      const held = new Held(assignment, this.#heartbeatMs);
      if (this.#ledger.take(held)) {
        void this.#execute(held);
      }
    }
    this.#heartbeats.plan();
    this.#flush();
  }

  /** Write what the ledger has to say; while a message is on its way the next one grows. */
  #flush() {
    const stream = this.#stream;
    if (!stream || stream.writableEnded || this.#writing) {
      return;
    }
    const request = this.#ledger.nextRequest();
    if (request) {
      this.#writing = true;
      stream.write(checked('Work', request), () => {
        if (stream === this.#stream) {
          this.#writing = false;
          this.#flush();
        }
      });
    }
  }

  // Steps.

  /** Do a step; whatever goes wrong fails its attempt, not the worker. @param {Held} held */
  async #execute(held) {
    /** @type {Message} */
    let result;
    try {
      if (this.#draining.signal.aborted) {
        throw new Release('the worker drains');
      }
      if (held.assignment.task?.effect === 'EFFECT_AT_MOST_ONCE') {
        await this.#begin(held);
      }
      result = await perform(this.#client, this.#steps, held, (progress) =>
        this.#heartbeats.report(held, progress),
      );
      checked('ReportOutcomes', { outcomes: [result] });
    } catch (error) {
      result = failureOf(error);
    }
    this.#ledger.finish(held, result);
    this.emit('outcome', { held, result });
    this.#flush();
    this.emit('change');
  }

  /** Say that a step starts which must not be started twice. @param {Held} held */
  async #begin(held) {
    const answered = this.#ledger.begin(held);
    this.#flush();
    if (!(await answered)) {
      held.abandon('the lease was lost before the step began');
    }
    held.signal.throwIfAborted();
  }

  /** @param {Message} ack @param {'stream' | 'ReportOutcomes'} way */
  #settle(ack, way) {
    const outcome = this.#ledger.settle(ack);
    if (outcome) {
      this.emit('ack', { ack, outcome, way });
      this.emit('change');
    }
  }

  /** @param {Held} held @param {Message} state */
  #leaseState(held, state) {
    this.emit('lease', { held, state });
    if (state.status !== 'LEASE_STATUS_LOST' && !state.cancelRequested) {
      return;
    }
    // An outcome is sent all the same, its answer settles it; so is the late one of a step that began.
    if (!held.reported && (!held.begun || state.cancelRequested)) {
      held.abandon('the lease is lost');
    }
  }

  /** Report outcomes without a stream; what can't be sent stays in the ledger. */
  async #complete() {
    for (const request of this.#ledger.completeRequests()) {
      try {
        const options = { timeoutMs: ACK_MS, patienceMs: 0 };
        const { acks } = await this.#client.call('ReportOutcomes', request, options);
        for (const ack of acks) {
          this.#settle(ack, 'ReportOutcomes');
        }
      } catch {
        return;
      }
    }
  }
}

/** @param {Message} end */
function ended({ reason }) {
  const word = reason.replace('WORK_END_REASON_', '');
  if (word === 'REPLACED') {
    throw new StepwellError('a newer process has this worker id', { reason: word });
  }
  return word; // DRAINING: come again, and keep the leases.
}
