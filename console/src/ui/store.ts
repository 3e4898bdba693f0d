// Values that components follow.
import { useEffect, useReducer } from "preact/hooks";

type Listener = () => void;

/** A value with listeners. */
export class Value<T> {
  private readonly listeners = new Set<Listener>();

  constructor(private current: T) {}

  get(): T {
    return this.current;
  }

  set(next: T): void {
    if (next === this.current) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }

  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/**
 * Something that changes in place. Its listeners are called at most once a frame, however much changes
 * between two frames.
 */
export class Changing {
  private readonly listeners = new Set<Listener>();
  private waiting = false;
  /** Counts the calls, so that a memo can depend on it. */
  changes = 0;

  changed(): void {
    this.changes += 1;
    if (this.waiting) return;
    this.waiting = true;
    const tell = () => {
      this.waiting = false;
      for (const listener of [...this.listeners]) listener();
    };
    // A hidden tab draws no frames.
    if (document.visibilityState === "visible") requestAnimationFrame(tell);
    else setTimeout(tell, 100);
  }

  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** Draws the component again whenever the value changes, and returns it. */
export function useValue<T>(value: Value<T>): T {
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => value.listen(() => again(undefined)), [value]);
  return value.get();
}

/** Draws the component again whenever the thing changes, and returns how often it has. */
export function useChanges(thing: Changing): number {
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const before = thing.changes;
    const stop = thing.listen(() => again(undefined));
    if (thing.changes !== before) again(undefined);
    return stop;
  }, [thing]);
  return thing.changes;
}
