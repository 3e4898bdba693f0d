// Turns at streaming. A browser opens six connections to a server, for all of its pages together:
// with a stream in each of ten pages, most calls would wait without end. Therefore pages share a
// few places. If a page waits for a place, the page that has it gives it up after a while, and
// continues from its cursor at its next turn.

const PLACES = 4;
const TURN_MS = 1_500;

/**
 * Calls `work` when a place is free, and returns what it does. Its signal is aborted when the turn is over, or when the
 * caller stops; undefined: that was before it began.
 */
export async function takeTurn<T>(
  stopped: AbortSignal,
  work: (over: AbortController) => Promise<T>,
): Promise<T | undefined> {
  const over = new AbortController();
  const stop = () => over.abort();
  stopped.addEventListener("abort", stop);
  try {
    // Browsers have no locks on pages that came without TLS from another machine.
    return await ("locks" in navigator ? withLock(over, work) : work(over));
  } catch (error) {
    if (!over.signal.aborted) throw error;
    return undefined;
  } finally {
    stopped.removeEventListener("abort", stop);
  }
}

async function withLock<T>(over: AbortController, work: (over: AbortController) => Promise<T>): Promise<T> {
  const name = await quietest();
  return await navigator.locks.request(name, { signal: over.signal }, async () => {
    const timer = setInterval(() => {
      void navigator.locks.query().then(({ pending }) => {
        if (pending?.some((one) => one.name === name)) over.abort();
      });
    }, TURN_MS);
    try {
      return await work(over);
    } finally {
      clearInterval(timer);
    }
  });
}

/** Returns the place that the fewest pages have or wait for. */
async function quietest(): Promise<string> {
  const { held = [], pending = [] } = await navigator.locks.query();
  const names = Array.from({ length: PLACES }, (_, place) => `stepwell.stream.${place}`);
  const users = (name: string) => [...held, ...pending].filter((one) => one.name === name).length;
  return names.sort((a, b) => users(a) - users(b))[0]!;
}
