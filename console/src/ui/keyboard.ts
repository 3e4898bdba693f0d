// Keys that work where no field is being written in.
import { useEffect } from "preact/hooks";

type Keys = Record<string, (event: KeyboardEvent) => void>;

const layers: Keys[] = [];

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select");
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isWriting(event.target)) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  for (const keys of [...layers].reverse()) {
    const action = keys[event.key];
    if (!action) continue;
    event.preventDefault();
    action(event);
    return;
  }
});

/** Listens for keys while the component is shown. What was added last goes first. */
export function useKeys(keys: Keys): void {
  useEffect(() => {
    layers.push(keys);
    return () => void layers.splice(layers.indexOf(keys), 1);
  });
}
