// Following a stream of the server: it is opened again by its cursor when it breaks, and closed while
// the page is hidden.
import { isAway, noteAway, noteError } from "./client.ts";
import { session } from "./session.ts";
import { takeTurn } from "./turns.ts";

export type Taken = "more" | "end" | "later";

/** A stream that can be gone on with. */
export interface Source<M> {
  /** Opens the stream after what was taken last. */
  open(signal: AbortSignal): AsyncIterable<M>;
  /** Takes a message. Returns whether the stream goes on, has ended, or is to be opened again after a while. */
  take(message: M): Taken | Promise<Taken>;
  /** Called with an error that opening again doesn't cure. Returns whether to try again. */
  failed(error: unknown): boolean | Promise<boolean>;
}

const FIRST_WAIT_MS = 250;
const LAST_WAIT_MS = 5_000;
/** How often an idle stream gives a sign of life; asked for in each request. */
export const SIGN_OF_LIFE_S = 5;
const SILENT_MS = 3 * SIGN_OF_LIFE_S * 1_000;

/** Follows a source until it ends or the returned function is called. */
export function follow<M>(source: Source<M>): () => void {
  const stopped = new AbortController();
  void run(source, stopped.signal);
  return () => stopped.abort();
}

async function run<M>(source: Source<M>, stopped: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!stopped.aborted) {
    await visible(stopped);
    const read = await takeTurn(stopped, (over) => readOnce(source, over));
    if (stopped.aborted || read === "end") return;
    if (read === undefined || read === "over") continue;
    wait = read === "later" ? LAST_WAIT_MS : read === "began" ? FIRST_WAIT_MS : Math.min(2 * wait, LAST_WAIT_MS);
    await pause(wait, stopped);
  }
}

/**
 * What became of one stream: it ended for good; asked to be opened later; broke after it had brought something, or
 * before; or its turn was over.
 */
type Read = "end" | "later" | "began" | "broken" | "over";

async function readOnce<M>(source: Source<M>, over: AbortController): Promise<Read> {
  // The page may have been hidden while this waited for its turn.
  if (document.visibilityState !== "visible") return "over";
  const key = session.get()?.key;
  const close = () => over.abort();
  document.addEventListener("visibilitychange", close);
  let isSilent = false;
  const silent = () => {
    isSilent = true;
    close();
  };
  let silence = setTimeout(silent, SILENT_MS);
  let read: Read = "broken";
  try {
    for await (const message of source.open(over.signal)) {
      clearTimeout(silence);
      read = "began";
      const taken = await source.take(message);
      if (taken !== "more") return taken;
      silence = setTimeout(silent, SILENT_MS);
    }
  } catch (error) {
    if (isSilent) noteAway();
    else if (over.signal.aborted) return "over";
    else {
      noteError(error, key);
      if (!isAway(error) && !(await source.failed(error))) return "end";
    }
  } finally {
    clearTimeout(silence);
    close();
    document.removeEventListener("visibilitychange", close);
  }
  return read;
}

/** Waits until the page is visible. */
function visible(stopped: AbortSignal): Promise<void> {
  if (document.visibilityState === "visible" || stopped.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState !== "visible" && !stopped.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    stopped.addEventListener("abort", look, { once: true });
  });
}

function pause(ms: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stopped.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
