/** Keeps leases alive by unary calls, so that neither a busy stream nor a broken one costs a lease. */
import { keyOf } from './ledger.mjs';
import { duration } from './messages.mjs';

/** @typedef {import('./messages.mjs').Message} Message */
/** @typedef {import('./ledger.mjs').Held} Held */

const CALL_MS = 5_000;

export class Heartbeats {
  #client;
  #ledger;
  #onState;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /**
   * @param {import('./client.mjs').Client} client
   * @param {import('./ledger.mjs').Ledger} ledger
   * @param {(held: Held, state: Message) => void} onState what the server says of each lease
   */
  constructor(client, ledger, onState) {
    this.#client = client;
    this.#ledger = ledger;
    this.#onState = onState;
  }

  /** Look again when the next one is due; to be called when there is another lease. */
  plan() {
    clearTimeout(this.#timer);
    const next = Math.min(...this.#ledger.leases().map((held) => held.nextBeat));
    if (next < Infinity) {
      this.#timer = setTimeout(() => this.#beat(), Math.max(5, next - Date.now()));
    }
  }

  stop() {
    clearTimeout(this.#timer);
  }

  async #beat() {
    // What is due a little later goes along: many leases make one message.
    const now = Date.now();
    const due = this.#ledger.leases().filter((held) => held.nextBeat <= now + held.heartbeatMs / 4);
    const idle = due.map((held) => (held.idleMs ? duration(now - held.activeAt) : null));
    for (const held of due) {
      held.beaten(now);
    }
    try {
      await this.#send(due.map(({ lease }, n) => ({ lease, idle: idle[n] })), due);
    } catch {
      for (const held of due) {
        held.nextBeat = Date.now() + held.heartbeatMs / 4;
      }
    }
    this.plan();
  }

  /**
   * Send a heartbeat of a step's function now: it is not idle.
   *
   * @param {Held} held
   * @param {Message | null} progress a payload of at most 16 KiB
   */
  async report(held, progress) {
    held.activeAt = Date.now();
    await this.#send([{ lease: held.lease, progress }], [held]);
  }

  /** @param {Message[]} heartbeats @param {Held[]} due what they are for */
  async #send(heartbeats, due) {
    if (!due.length) {
      return;
    }
    const { leases } = await this.#client.call('Heartbeat', { heartbeats }, {
      timeoutMs: CALL_MS,
      patienceMs: 0, // The next one comes soon enough.
    });
    const byKey = new Map(due.map((held) => [held.key, held]));
    for (const state of leases) {
      const held = byKey.get(keyOf(state.lease));
      if (held) {
        this.#onState(held, state);
      }
    }
  }
}
