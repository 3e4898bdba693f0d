// Choices that this browser keeps. A value that can't be read, or be kept, is as if there were none.
import { Value } from "./store.ts";

export function kept<T>(name: string, otherwise: T, isValid: (value: unknown) => value is T): Value<T> {
  const key = `stepwell.${name}`;
  let first = otherwise;
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? "null");
    if (isValid(found)) first = found;
  } catch {
    // It isn't JSON.
  }
  const value = new Value(first);
  value.listen(() => {
    try {
      localStorage.setItem(key, JSON.stringify(value.get()));
    } catch {
      // There is no room: the choice lasts as long as the page.
    }
  });
  return value;
}
