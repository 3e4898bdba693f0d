// The client of the Orchestrator service, and what its errors say.
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { Orchestrator } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { BASE } from "../ui/router.ts";
import { Value } from "../ui/store.ts";
import { logOut, session } from "./session.ts";

/** Since when the server is away, in milliseconds since 1970; 0: it answers. */
export const away = new Value(0);

const transport = createConnectTransport({
  baseUrl: location.origin + BASE,
  useBinaryFormat: true,
  interceptors: [
    (next) => async (request) => {
      const key = session.get()?.key;
      if (key) request.header.set("Authorization", `Bearer ${key}`);
      try {
        const response = await next(request);
        away.set(0);
        return response;
      } catch (error) {
        noteError(error, key);
        throw error;
      }
    },
  ],
});

export const api = createClient(Orchestrator, transport);

/** Notes that the server doesn't answer. */
export function noteAway(): void {
  away.set(away.get() || Date.now());
}

/** Keeps what an error says of the connection, and of the session whose key was sent. */
export function noteError(error: unknown, key: string | undefined): void {
  const code = ConnectError.from(error).code;
  if (isAway(error)) noteAway();
  else if (code !== Code.Canceled) away.set(0);
  // A key that another page has replaced meanwhile is no reason to end the new session.
  if (code === Code.Unauthenticated && session.get()?.key === key) logOut();
}

/** Whether an error means that the server can't be reached or asks to be called again. */
export function isAway(error: unknown): boolean {
  const { code, cause } = ConnectError.from(error);
  // fetch() reports a connection that failed as a TypeError.
  return code === Code.Unavailable || (code === Code.Unknown && cause instanceof TypeError);
}

export interface Fault {
  field: string;
  description: string;
}

/** What an error says: the stable reason, the words and the fields at fault. */
export interface Problem {
  reason: string;
  message: string;
  faults: Fault[];
}

/** Returns what an error says. */
export function problem(error: unknown): Problem {
  const one = ConnectError.from(error);
  const result: Problem = { reason: "", message: one.rawMessage, faults: [] };
  if (isAway(error)) result.message = "The server can't be reached. Nothing is known to have changed.";
  for (const detail of one.details) {
    if (!("type" in detail)) continue;
    if (detail.type === "google.rpc.ErrorInfo") result.reason = strings(detail.value)[1]?.[0] ?? "";
    if (detail.type === "google.rpc.BadRequest") {
      result.faults.push(...faults(detail.value, 1, 2));
    }
    if (detail.type === "google.rpc.PreconditionFailure") {
      result.faults.push(...faults(detail.value, 2, 3));
    }
  }
  return result;
}

/** Returns the violations of a message whose field 1 repeats them. */
function faults(bytes: Uint8Array, field: number, description: number): Fault[] {
  return (fields(bytes)[1] ?? []).map((one) => {
    const found = strings(one);
    return { field: found[field]?.[0] ?? "", description: found[description]?.[0] ?? "" };
  });
}

/** Reads the fields of a message that consists of bytes and strings. */
function fields(bytes: Uint8Array): Record<number, Uint8Array[]> {
  const found: Record<number, Uint8Array[]> = {};
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, wire] = reader.tag();
    if (wire === 2) (found[number] ??= []).push(reader.bytes());
    else reader.skip(wire, number);
  }
  return found;
}

function strings(bytes: Uint8Array): Record<number, string[]> {
  const decoder = new TextDecoder();
  const entries = Object.entries(fields(bytes));
  return Object.fromEntries(
    entries.map(([number, values]) => [number, values.map((one) => decoder.decode(one))]),
  );
}

/** A new request id: sent again with the same one, a command changes nothing twice. */
export function requestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${[...bytes].map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** Yields the pages of a list. */
export async function* pages<R extends { nextPageToken: string }>(
  call: (pageToken: string) => Promise<R>,
): AsyncGenerator<R> {
  let token = "";
  do {
    const page = await call(token);
    yield page;
    token = page.nextPageToken;
  } while (token);
}
