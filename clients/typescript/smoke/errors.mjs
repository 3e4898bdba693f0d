/**
 * What can go wrong: one error, with the server's stable reason.
 *
 * A server puts a google.rpc.Status into the trailing metadata `grpc-status-details-bin`. In it are an
 * ErrorInfo (why), and with INVALID_ARGUMENT a BadRequest (which fields). An error that the transport
 * made itself has neither.
 */
import { status } from '@grpc/grpc-js';
import protobuf from 'protobufjs';

/** The few fields of google/rpc/status.proto and error_details.proto that are read here. */
const { root: details } = protobuf.parse(`
  syntax = "proto3";
  message Status { repeated Any details = 3; }
  message Any { string type_url = 1; bytes value = 2; }
  message ErrorInfo { string reason = 1; map<string, string> metadata = 3; }
  message BadRequest { repeated FieldViolation field_violations = 1; }
  message FieldViolation { string field = 1; string description = 2; }
`);

/** What a connection that is lost looks like. */
const LOST = ['UNAVAILABLE', 'DEADLINE_EXCEEDED', 'CANCELLED'];
/** The same in the middle of a message; from the server itself these come with a reason. */
const BROKEN = ['INTERNAL', 'UNKNOWN'];

export class StepwellError extends Error {
  name = 'StepwellError';

  /**
   * @param {string} message
   * @param {{code?: string, reason?: string, metadata?: Record<string, string>,
   *   violations?: {field: string, description: string}[]}} [about]
   */
  constructor(message, { code = '', reason = '', metadata = {}, violations = [] } = {}) {
    super(message);
    /** The status code's name: `NOT_FOUND`. */
    this.code = code;
    /** Stable: `RUN_NOT_FOUND`; empty: the server said nothing. */
    this.reason = reason;
    /** What belongs to the reason, such as `run_id`. */
    this.metadata = metadata;
    /** What is wrong with which field; the paths are the protocol's: `plan.tasks[0].depends_on[1]`. */
    this.violations = violations;
  }

  /** Whether the server is gone, or says itself that the same may be sent again. */
  get isLoss() {
    return LOST.includes(this.code) || (BROKEN.includes(this.code) && !this.reason);
  }

  /** @param {any} error what grpc-js threw @returns {StepwellError} */
  static from(error) {
    if (error instanceof StepwellError || typeof error?.code !== 'number') {
      return error;
    }
    const [packed] = error.metadata?.get('grpc-status-details-bin') ?? [];
    return new StepwellError(error.details || error.message, {
      code: status[error.code],
      ...(packed && read(packed)),
    });
  }
}

/** @param {Uint8Array} packed */
function read(packed) {
  const found = { reason: '', metadata: {}, violations: [] };
  for (const { typeUrl, value } of decode('Status', packed).details) {
    if (typeUrl.endsWith('/google.rpc.ErrorInfo')) {
      Object.assign(found, decode('ErrorInfo', value));
    } else if (typeUrl.endsWith('/google.rpc.BadRequest')) {
      found.violations = decode('BadRequest', value).fieldViolations;
    }
  }
  return found;
}

/** @param {string} name @param {Uint8Array} bytes */
function decode(name, bytes) {
  const type = details.lookupType(name);
  return type.toObject(type.decode(bytes), { defaults: true });
}
