/**
 * Where the server is, how one proves oneself to it, and how it is called.
 *
 *     const client = new Client({ target: 'unix:/run/stepwell/s.sock' });
 *     const { run } = await client.call('GetRun', { runId });
 *
 * Target: the argument, else $STEPWELL_TARGET, else 127.0.0.1:7878. Token: the argument, else
 * $STEPWELL_TOKEN, else the file $STEPWELL_TOKEN_FILE, else the one that a server of the same user
 * made.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import grpc from '@grpc/grpc-js';

import { StepwellError } from './errors.mjs';
import { checked, methods } from './messages.mjs';

/** @typedef {import('./messages.mjs').Message} Message */

const CALL_MS = 30_000;
/** How long a call looks for a server that is away. */
const PATIENCE_MS = 60_000;
/** With a request id the same command sent twice is carried out once. */
const COMMANDS = ['StartRun', 'ResumeRun', 'PauseRun', 'CancelRun'];
/** What is sent there never leaves this machine. */
const LOCAL = /^(unix(-abstract)?:.*|((dns:(\/\/\/)?)?localhost|127(\.\d+){3}|\[::1\])(:\d+)?)$/;

const OPTIONS = {
  'grpc.max_send_message_length': 4 * 1024 * 1024,
  'grpc.max_receive_message_length': 8 * 1024 * 1024,
  // A peer that vanished without a word is noticed by these.
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.keepalive_permit_without_calls': 1,
  // A server that comes back is found soon.
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 400,
  // Retries are ours: they know which calls may be repeated.
  'grpc.enable_retries': 0,
};

export class Client {
  #grpc;
  #metadata = new grpc.Metadata();

  /**
   * @param {{target?: string, token?: string, tokenFile?: string,
   *   credentials?: grpc.ChannelCredentials}} [options] `credentials` is for TLS
   */
  constructor({ target, token, tokenFile, credentials } = {}) {
    const { STEPWELL_TARGET, STEPWELL_TOKEN, STEPWELL_TOKEN_FILE } = process.env;
    this.target = target ?? STEPWELL_TARGET ?? '127.0.0.1:7878';
    const local = LOCAL.test(this.target);
    if (!local && !credentials) {
      throw new StepwellError(`a token must not travel to ${this.target} in clear text`);
    }
    const bearer =
      token ??
      (tokenFile ? undefined : STEPWELL_TOKEN) ??
      readFileSync(tokenFile ?? STEPWELL_TOKEN_FILE ?? defaultTokenFile(), 'utf8');
    this.#metadata.set('authorization', `Bearer ${bearer.trim()}`);
    this.#grpc = new grpc.Client(
      this.target,
      credentials ?? grpc.credentials.createInsecure(),
      { ...OPTIONS, 'grpc.enable_http_proxy': local ? 0 : 1 },
    );
  }

  /**
   * Call a unary RPC by its name; again while the server is away, as all but DeleteRun may be.
   *
   * @param {string} method
   * @param {Message} [request]
   * @param {{timeoutMs?: number, patienceMs?: number}} [options] patience 0: it is called once
   * @returns {Promise<Message>}
   */
  async call(method, request = {}, { timeoutMs = CALL_MS, patienceMs = PATIENCE_MS } = {}) {
    if (COMMANDS.includes(method)) {
      request = { requestId: randomUUID(), ...request };
    }
    const until = Date.now() + (method === 'DeleteRun' ? 0 : patienceMs);
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.#once(method, request, timeoutMs);
      } catch (error) {
        const problem = StepwellError.from(error);
        if (problem.code !== 'UNAVAILABLE' || Date.now() >= until) {
          throw problem;
        }
        await sleep(backoff(failures));
      }
    }
  }

  /**
   * @param {string} method
   * @param {Message} request
   * @param {number} timeoutMs
   * @returns {Promise<Message>}
   */
  #once(method, request, timeoutMs) {
    const { path, requestSerialize, responseDeserialize } = methods[method];
    checked(method, request);
    return new Promise((resolve, reject) => {
      this.#grpc.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        this.#metadata,
        { deadline: Date.now() + timeoutMs },
        (error, response) => (error ? reject(error) : resolve(response)),
      );
    });
  }

  /**
   * Open a stream of responses. Who stops reading must `cancel()` it: leaving a `for await` doesn't.
   *
   * @param {string} method
   * @param {Message} request
   */
  stream(method, request) {
    const { path, requestSerialize, responseDeserialize } = methods[method];
    checked(method, request);
    return quiet(
      this.#grpc.makeServerStreamRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        this.#metadata,
      ),
    );
  }

  /** Open a stream in both directions. @param {string} method */
  duplex(method) {
    const { path, requestSerialize, responseDeserialize } = methods[method];
    return quiet(
      this.#grpc.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, this.#metadata),
    );
  }

  close() {
    this.#grpc.close();
  }
}

/**
 * An error of a stream nobody reads any more, as after `cancel()`, would end the process.
 *
 * @template {import('node:events').EventEmitter} S
 * @param {S} stream
 * @returns {S}
 */
function quiet(stream) {
  return stream.on('error', () => {});
}

/** How many milliseconds to wait after so many failures in a row. @param {number} failures */
export function backoff(failures) {
  return Math.random() * Math.min(1_000, 50 * 2 ** failures);
}

function defaultTokenFile() {
  const named = process.env.XDG_STATE_HOME ?? '';
  // A relative one is to be passed over, says the XDG base directory specification.
  return join(isAbsolute(named) ? named : join(homedir(), '.local', 'state'), 'stepwell', 'token');
}
