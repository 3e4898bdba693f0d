/**
 * What a worker holds: steps that run, outcomes and begins that wait for their acknowledgement.
 *
 * No network here: a stream asks for the next request and hands in what came. Nothing is forgotten
 * before it is acknowledged, so a new stream simply begins with all that is here.
 */
import { milliseconds, sizeOf } from './messages.mjs';

/** @typedef {import('./messages.mjs').Message} Message */

/** Running steps, and as many outcomes that aren't acknowledged, make a thousand leases: the limit. */
export const CONCURRENCY_MAX = 500;
const ITEMS_MAX = 1_000;
const BATCH_BYTES_MAX = 3 * 1024 * 1024;
/** An outcome by itself, with room for what surrounds it in a message of 4 MiB. */
const OUTCOME_BYTES_MAX = 4 * 1024 * 1024 - 64 * 1024;

/** A lease, and the step that it is for. */
export class Held {
  #abort = new AbortController();

  /** @param {Message} assignment @param {number} heartbeatMs the server's interval */
  constructor(assignment, heartbeatMs) {
    this.assignment = assignment;
    /** What every item about this step says. */
    this.lease = assignment.lease;
    /** How long its function may do nothing; 0: as long as it likes. */
    this.idleMs = milliseconds(assignment.task?.idleTimeout ?? null);
    // A task may have a shorter lease than the others.
    this.heartbeatMs = Math.min(
      heartbeatMs,
      milliseconds(assignment.leaseDuration) / 3 || Infinity,
      this.idleMs || Infinity,
    );
    /** When its function last said how far it is. */
    this.activeAt = Date.now();
    this.nextBeat = 0;
    this.beaten();
    /** Resolves when the Begin is answered. @type {((accepted: boolean) => void) | null} */
    this.begun = null;
    /** Its outcome is written down, though its function may still run. */
    this.reported = false;
  }

  get key() {
    return keyOf(this.lease);
  }

  /** Plan the next heartbeat: after the interval, or when its function is idle for too long. */
  beaten(now = Date.now()) {
    const idleAt = this.activeAt + this.idleMs;
    const due = now + this.heartbeatMs;
    this.nextBeat = this.idleMs && idleAt > now ? Math.min(idleAt, due) : due;
  }

  /** Aborted when nobody waits for the step any more. */
  get signal() {
    return this.#abort.signal;
  }

  /** @param {string} reason */
  abandon(reason) {
    this.#abort.abort(new Error(reason));
  }
}

/** @param {Message} lease */
export const keyOf = ({ runId, executionId }) => `${runId} ${executionId}`;

export class Ledger {
  /** @type {Map<string, Held>} */
  running = new Map();
  /** Outcomes by delivery id. @type {Map<string, {held: Held, outcome: Message, size: number}>} */
  pending = new Map();
  /** No more steps are wanted. */
  draining = false;
  #drainSent = false;
  /** Begins by delivery id. @type {Map<string, {held: Held, begin: Message}>} */
  begins = new Map();
  #concurrency;
  #credits = 0;
  #deliveries = 0;
  /** @type {string[]} */
  #unsent = [];
  /** @type {string[]} */
  #unsentBegins = [];

  /** @param {number} concurrency */
  constructor(concurrency) {
    this.#concurrency = concurrency;
  }

  /** Begin again: no credit is granted yet, and all that isn't acknowledged is to be sent. */
  newStream() {
    this.#credits = 0;
    this.#drainSent = false;
    this.#unsent = [...this.pending.keys()];
    this.#unsentBegins = [...this.begins.keys()];
  }

  /** The leases that are to live on. */
  leases() {
    const running = [...this.running.values()].filter((held) => !held.reported);
    const pending = [...this.pending.values()].map(({ held }) => held);
    return [...running, ...pending].filter((held) => !held.signal.aborted);
  }

  /** Count an assignment; false: the step runs here already. @param {Held} held */
  take(held) {
    this.#credits = Math.max(0, this.#credits - 1);
    if (this.running.has(held.key)) {
      return false;
    }
    this.running.set(held.key, held);
    return true;
  }

  /**
   * Count a step that has ended; what nobody waits for isn't reported.
   *
   * @param {Held} held
   * @param {Message} result
   */
  finish(held, result) {
    this.running.delete(held.key);
    if (!held.signal.aborted && !held.reported) {
      this.report(held, result);
    }
  }

  /** Keep an outcome until it is acknowledged. @param {Held} held @param {Message} result */
  report(held, result) {
    held.reported = true;
    /** @type {Message} */
    let outcome = { deliveryId: this.#nextId(), lease: held.lease, ...result };
    let size = sizeOf('ReportOutcomes', { outcomes: [outcome] });
    if (size > OUTCOME_BYTES_MAX) {
      const failure = { kind: 'RESULT_TOO_LARGE', message: `${size} bytes`, retryable: false };
      outcome = { deliveryId: outcome.deliveryId, lease: held.lease, failed: { failure } };
      size = 1_024;
    }
    this.pending.set(outcome.deliveryId, { held, outcome, size });
    this.#unsent.push(outcome.deliveryId);
  }

  /** Have a Begin sent. @param {Held} held @returns {Promise<boolean>} whether it was accepted */
  begin(held) {
    const begin = { deliveryId: this.#nextId(), lease: held.lease };
    this.begins.set(begin.deliveryId, { held, begin });
    this.#unsentBegins.push(begin.deliveryId);
    return new Promise((resolve) => {
      held.begun = resolve;
    });
  }

  /** Take an acknowledgement in; return the outcome that it is for. @param {Message} ack */
  settle(ack) {
    const begun = this.begins.get(ack.deliveryId);
    if (begun) {
      this.begins.delete(ack.deliveryId);
      begun.held.begun?.(ack.status === 'ACK_STATUS_ACCEPTED');
    }
    const settled = this.pending.get(ack.deliveryId);
    this.pending.delete(ack.deliveryId);
    return settled?.outcome ?? null;
  }

  /** All that is to be said now, as far as it fits one message; null: nothing. */
  nextRequest() {
    const outcomes = this.#batch(this.#unsent);
    const begins = this.#unsentBegins
      .splice(0, ITEMS_MAX)
      .flatMap((id) => this.begins.get(id)?.begin ?? []);
    // Outcomes that pile up unacknowledged stop new work: all that is held fits a Hello.
    const full = this.draining || this.pending.size >= CONCURRENCY_MAX;
    const credits = full ? 0 : Math.max(0, this.#concurrency - this.running.size - this.#credits);
    const draining = this.draining && !this.#drainSent;
    if (!outcomes.length && !begins.length && !credits && !draining) {
      return null;
    }
    this.#credits += credits;
    this.#drainSent ||= draining;
    return { credits, outcomes, begins, draining };
  }

  /** Every outcome that isn't acknowledged, for the way without a stream. */
  *completeRequests() {
    const ids = [...this.pending.keys()];
    while (ids.length) {
      yield { outcomes: this.#batch(ids) };
    }
  }

  /** Take as many from the front as fit a message. @param {string[]} ids */
  #batch(ids) {
    /** @type {Message[]} */
    const outcomes = [];
    let size = 0;
    while (ids.length && outcomes.length < ITEMS_MAX) {
      const pending = this.pending.get(ids[0]);
      size += pending?.size ?? 0;
      if (pending && outcomes.length && size > BATCH_BYTES_MAX) {
        break;
      }
      if (pending) {
        outcomes.push(pending.outcome);
      }
      ids.shift();
    }
    return outcomes;
  }

  #nextId() {
    this.#deliveries += 1;
    return `d${this.#deliveries}`;
  }
}
