/**
 * The protocol as Node sees it: loaded from proto/ when the program starts, nothing is generated.
 *
 * Messages are plain objects. Names are in camelCase (`run_id` is `runId`), enums are the names of
 * their values (`'RUN_STATUS_RUNNING'`), 64-bit integers are strings (`'42'`), bytes are Buffers. A
 * message that is absent is null; an optional scalar that is absent is undefined. Which member of a
 * oneof is there is said under the oneof's own name: `response.message === 'events'`.
 */
import { fileURLToPath } from 'node:url';

import protoLoader from '@grpc/proto-loader';

/** @typedef {Record<string, any>} Message */

const PROTO = fileURLToPath(new URL('../../../proto', import.meta.url));

const definition = protoLoader.loadSync(
  ['stepwell/v1/orchestrator.proto', 'stepwell/v1/worker.proto'],
  { includeDirs: [PROTO], longs: String, enums: String, defaults: true, oneofs: true },
);

/** @typedef {Record<string, import('@grpc/grpc-js').MethodDefinition<any, any>>} Methods */

/** Every RPC of the two services by its name: `methods.StartRun`. */
export const methods = /** @type {Methods} */ ({
  ...definition['stepwell.v1.Orchestrator'],
  ...definition['stepwell.v1.Worker'],
});

/**
 * Return a request as it is, having made sure that all of it would arrive.
 *
 * The loader drops a field that it doesn't know, and takes an enum's unknown name for 0, both without
 * a word: `effect: 'AT_MOST_ONCE'` would become the default, for want of its prefix. So the request is
 * packed and unpacked, and compared.
 *
 * @param {string} method
 * @param {Message} request
 * @returns {Message}
 */
export function checked(method, request) {
  const { requestSerialize, requestDeserialize } = methods[method];
  compare(request, requestDeserialize(requestSerialize(request)), method);
  return request;
}

/** @param {string} method @param {Message} request @returns {number} */
export function sizeOf(method, request) {
  return methods[method].requestSerialize(request).length;
}

/** @param {any} sent @param {any} arrived @param {string} path */
function compare(sent, arrived, path) {
  if (sent === undefined || sent === null || sent instanceof Uint8Array) {
    return;
  }
  if (arrived === undefined) {
    throw new TypeError(`${path}: the protocol has no such field`);
  }
  if (typeof sent === 'object') {
    for (const [key, value] of Object.entries(sent)) {
      compare(value, arrived?.[key], Array.isArray(sent) ? `${path}[${key}]` : `${path}.${key}`);
    }
  } else if (String(sent) !== String(arrived)) {
    throw new TypeError(`${path}: ${sent} would arrive as ${arrived}`);
  }
}

/**
 * A value as a payload: a Buffer as it is, undefined as none, the rest as JSON.
 *
 * @param {unknown} value
 * @returns {Message | null}
 */
export function payload(value) {
  if (value === undefined) {
    return null;
  }
  if (value instanceof Uint8Array) {
    return { data: value, mediaType: 'application/octet-stream' };
  }
  return { data: Buffer.from(JSON.stringify(value)) }; // JSON is what no media type means.
}

/**
 * What a payload holds: JSON is parsed, other bytes are left as they are, none is undefined.
 *
 * @param {Message | null | undefined} from
 * @returns {any}
 */
export function value(from) {
  if (!from) {
    return undefined;
  }
  const json = (from.mediaType ?? 'application/json') === 'application/json';
  return json ? JSON.parse(from.data.toString()) : from.data;
}

/** @param {number} ms @returns {Message} a google.protobuf.Duration */
export function duration(ms) {
  return { seconds: String(Math.trunc(ms / 1000)), nanos: Math.round(ms % 1000) * 1e6 };
}

/** @param {Message | null} span a google.protobuf.Duration; absent: 0 */
export function milliseconds(span) {
  return span ? Number(span.seconds) * 1000 + span.nanos / 1e6 : 0;
}

/** @param {Message | null} moment a google.protobuf.Timestamp; a Date knows its milliseconds only */
export function date(moment) {
  return moment ? new Date(Number(moment.seconds) * 1000 + moment.nanos / 1e6) : null;
}
