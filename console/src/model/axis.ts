// The axis of a timeline: the part of time that is shown, its marks, zooming and moving.

/** A part of time, in milliseconds since 1970. */
export interface Window {
  from: number;
  to: number;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((one) => one * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((one) => one * MINUTE),
  ...[1, 2, 3, 6, 12].map((one) => one * HOUR),
  ...[1, 2, 7, 30, 90, 365].map((one) => one * DAY),
];
const SHORTEST = 5;

/** Returns the distance of at most so many round marks. */
export function stepOf(length: number, most: number): number {
  return STEPS.find((one) => length / one <= most) ?? Math.ceil(length / most / DAY) * DAY;
}

/** Returns the moments to mark in a window: whole steps after `start`. */
export function ticks({ from, to }: Window, start: number, step: number): number[] {
  const marks: number[] = [];
  for (let at = Math.ceil((from - start) / step) * step; at <= to - start; at += step) marks.push(start + at);
  return marks;
}

/** A mark's text, as exact as its step: `250ms`, `1.5s`, `1m30s`, `2h05m`, `3d`. */
export function tickText(at: number, step: number): string {
  if (step < SECOND && at < SECOND) return `${Math.round(at)}ms`;
  if (step < SECOND) return `${(at / SECOND).toFixed(step < 10 ? 3 : step < 100 ? 2 : 1)}s`;
  const units: [size: number, letter: string][] = [[DAY, "d"], [HOUR, "h"], [MINUTE, "m"], [SECOND, "s"]];
  const last = units.findIndex(([size]) => step % size === 0);
  const first = units.findIndex(([size], index) => size <= at || index === last);
  return units
    .slice(first, last + 1)
    .map(([size, letter], index) => {
      const value = Math.floor((index ? at % units[first + index - 1]![0] : at) / size);
      return `${index ? String(value).padStart(2, "0") : value}${letter}`;
    })
    .join("");
}

/** Makes a window longer or shorter around a place between 0 and 1; undefined: it holds everything. */
export function zoomed(shown: Window, all: Window, factor: number, place: number): Window | undefined {
  const length = Math.max(SHORTEST, (shown.to - shown.from) * factor);
  if (length >= all.to - all.from) return undefined;
  const from = shown.from + (shown.to - shown.from - length) * place;
  return within({ from, to: from + length }, all);
}

/** Moves a window into the bounds. */
export function within({ from, to }: Window, all: Window): Window {
  const by = Math.max(all.from - from, 0) || Math.min(all.to - to, 0);
  return { from: from + by, to: to + by };
}
