// Words for people: times, counts, names.
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { visible } from "./strange.ts";

/** A moment in milliseconds since 1970; 0: there is none. */
export function ms(time: Timestamp | undefined): number {
  return time ? Number(time.seconds) * 1_000 + time.nanos / 1e6 : 0;
}

/** A time span in milliseconds; 0: there is none. */
export function spanMs(time: Duration | undefined): number {
  return time ? Number(time.seconds) * 1_000 + time.nanos / 1e6 : 0;
}

/** A duration: `0.31s`, `12.3s`, `3m05s`, `2h10m`, `3d04h`. */
export function span(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds) / 1_000;
  if (seconds < 9.995) return `${seconds.toFixed(2)}s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}m${two(whole % 60)}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}h${two(minutes % 60)}m`;
  return `${Math.floor(hours / 24)}d${two(hours % 24)}h`;
}

/** The time since something: `now`, `14s ago`, `3d ago`. */
export function ago(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000);
  if (seconds < 1) return "now";
  for (const [size, letter] of [[86_400, "d"], [3_600, "h"], [60, "m"]] as const) {
    if (seconds >= size) return `${Math.floor(seconds / size)}${letter} ago`;
  }
  return `${seconds}s ago`;
}

/** A moment in local time: `2026-03-01 14:05:09`. */
export function moment(at: number): string {
  if (!at) return "–";
  const date = new Date(at);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

const NUMBER = new Intl.NumberFormat("en");

/** A whole number with separators. */
export function number(value: bigint | number): string {
  return NUMBER.format(value);
}

/** `1 task`, `2 tasks`. */
export function count(value: bigint | number, noun: string): string {
  return `${number(value)} ${noun}${Number(value) === 1 ? "" : "s"}`;
}

/** A size in bytes: `812 B`, `1.2 KiB`, `3.4 MiB`. */
export function bytes(size: number): string {
  if (size < 1_024) return `${size} B`;
  if (size < 1_048_576) return `${(size / 1_024).toFixed(1)} KiB`;
  return `${(size / 1_048_576).toFixed(1)} MiB`;
}

/** Millionths of a currency unit as units: `1.250000`, without trailing zeros beyond cents. */
export function cost(micros: bigint): string {
  const sign = micros < 0n ? "-" : "";
  const whole = micros < 0n ? -micros : micros;
  const rest = String(whole % 1_000_000n).padStart(6, "0").replace(/0{1,4}$/, "");
  return `${sign}${NUMBER.format(whole / 1_000_000n)}.${rest}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A run's id as people type it: the beginning of a UUID, a name as it is. */
export function shortId(runId: string): string {
  return UUID.test(runId) ? runId.slice(0, 8) : runId;
}

/** The name of an enum's value, in lower case and with spaces. */
export function word(names: Record<number, string>, value: number): string {
  return (names[value] ?? `unknown ${value}`).toLowerCase().replaceAll("_", " ");
}

/** The first line of a text of strangers, cut. */
export function firstLine(text: string, charsMax = 200): string {
  const line = visible(text.trimStart().split("\n", 1)[0] ?? "");
  return line.length > charsMax ? `${line.slice(0, charsMax - 1)}…` : line;
}

/** A JSON string of plain text, for bytes that are text. */
export function decode(data: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return undefined;
  }
}
