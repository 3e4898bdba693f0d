// The calls of a journal, nested as they were made. Their keys say so; how keys are made stands in the Python client's `keys.py`.
import { JournalMark, type StoredEntry } from "../gen/stepwell/v1/types_pb.ts";
import { ms, spanMs } from "./text.ts";

export interface Call {
  /** The key; of a scope the part of its calls' keys that they share. */
  key: string;
  /** A scope has calls within it, and no entry. */
  scope: boolean;
  name: string;
  /** The key that the code gave it, in words; empty: it has a digest of its arguments. */
  own: string;
  /** Counts calls of the same name with the same arguments; 0: it has a key of its own. */
  number: number;
  digest: string;
  end: StoredEntry | undefined;
  begun: StoredEntry | undefined;
  wait: StoredEntry | undefined;
  tries: StoredEntry[];
  inner: Call[];
  /** When it began, as far as its entries say, in milliseconds since 1970. */
  from: number;
}

const COUNTED = /^([0-9a-f]{16})#(\d+)$/;

/** Returns the calls of one generation of a journal, by when they began. */
export function calls(entries: readonly StoredEntry[]): Call[] {
  const known = new Map<string, Call>();
  const roots: Call[] = [];
  for (const stored of entries) {
    const { entry } = stored;
    if (!entry) continue;
    const call = find(entry.key, known, roots);
    if (entry.name) call.name = entry.name;
    if (entry.mark === JournalMark.TRY) call.tries.push(stored);
    else if (entry.mark === JournalMark.BEGIN) call.begun = stored;
    else if (entry.mark === JournalMark.WAIT) call.wait = stored;
    else call.end = stored;
  }
  return sorted(roots);
}

/** Returns a key's call, and puts it, and what it is within, where they belong. */
function find(key: string, known: Map<string, Call>, roots: Call[]): Call {
  const parts = key.split("/");
  let siblings = roots;
  let call: Call | undefined;
  for (let at = 0; at < parts.length; ) {
    const part = parts[at]!;
    const counted = COUNTED.exec(parts[at + 1] ?? "");
    const last = at === parts.length - 1;
    at += counted ? 2 : 1;
    // The calls within one that has its own key have a `#` behind that.
    const isOwn = !counted && (last || part.endsWith("#"));
    const until = parts.slice(0, at).join("/");
    const path = isOwn && !last ? until.slice(0, -1) : until;
    call = known.get(path);
    if (!call) {
      const words = unescape(isOwn && !last ? part.slice(0, -1) : part);
      const [, digest = "", number = "0"] = counted ?? [];
      const empty = { end: undefined, begun: undefined, wait: undefined, tries: [], inner: [], from: 0 };
      call = { ...empty, key: path, scope: !counted && !isOwn, name: words, own: isOwn ? words : "", digest, number: Number(number) };
      known.set(path, call);
      siblings.push(call);
    }
    siblings = call.inner;
  }
  return call!;
}

function unescape(part: string): string {
  return part.replaceAll("%2F", "/").replaceAll("%23", "#").replaceAll("%25", "%");
}

function sorted(list: Call[]): Call[] {
  for (const call of list) {
    sorted(call.inner);
    const moments = [call.begun, call.wait, ...call.tries, call.end].flatMap((one) =>
      one ? [ms(one.writtenTime) - spanMs(one.entry?.took)] : [],
    );
    call.from = Math.min(...moments, ...call.inner.map((one) => one.from));
  }
  return list.sort((a, b) => a.from - b.from);
}

export interface Used {
  tokens: number;
  costMicros: bigint;
}

/** Returns what a call has used up, with the calls within it. */
export function used(call: Call): Used {
  const total = { tokens: 0, costMicros: 0n };
  for (const stored of [call.end, ...call.tries]) {
    const usage = stored?.entry?.usage;
    total.tokens += Number(usage?.inputTokens ?? 0n) + Number(usage?.outputTokens ?? 0n);
    total.costMicros += usage?.costMicros ?? 0n;
  }
  for (const inner of call.inner.map(used)) {
    total.tokens += inner.tokens;
    total.costMicros += inner.costMicros;
  }
  return total;
}

export type CallState = "done" | "sleeps" | "slept" | "begun" | "failed" | "open";

/** How a call stands; `open`: nothing is recorded of it but calls within it. */
export function stateOf({ end, begun, wait, tries }: Call, now: number): CallState {
  if (end) return "done";
  if (wait) return ms(wait.untilTime) > now ? "sleeps" : "slept";
  if (begun) return "begun";
  return tries.length ? "failed" : "open";
}
