// What is shown as a table: JSON that is a list of objects, and CSV.
import { compact, type Json, textOf } from "./json.ts";

export interface Table {
  head: string[];
  rows: string[][];
}

const COLUMNS_MAX = 40;

/** Returns a list of objects as a table; undefined: it is something else, or one cell would hold too much to be read. */
export function tableOf(value: Json): Table | undefined {
  if (value.kind !== "array" || value.items.length < 2) return undefined;
  const head = new Set<string>();
  for (const one of value.items) {
    if (one.kind !== "object") return undefined;
    for (const { name } of one.entries) head.add(name);
  }
  if (!head.size || head.size > COLUMNS_MAX) return undefined;
  const rows = value.items.map((one) => {
    const cells = new Map(one.kind === "object" ? one.entries.map((entry) => [entry.name, entry.value]) : []);
    return [...head].map((name) => {
      const cell = cells.get(name);
      return cell ? (textOf(cell) ?? compact(cell)) : "";
    });
  });
  return { head: [...head], rows };
}

const CELL = /(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/y;

/** Reads a text of comma-separated values, whose first row names the columns. */
export function csv(text: string): Table {
  const rows: string[][] = [[]];
  const source = text.replace(/\r\n?/g, "\n").replace(/\n$/, "");
  CELL.lastIndex = 0;
  for (let end = ","; end; ) {
    // The second form takes whatever the first one doesn't, a quote that isn't closed, too.
    const found = CELL.exec(source)!;
    rows.at(-1)!.push(found[1]?.replaceAll('""', '"') ?? found[2]!);
    end = found[3]!;
    if (end === "\n") rows.push([]);
  }
  const [head = [], ...others] = rows;
  return { head, rows: others };
}
