// JSON as it is written. JSON.parse turns 9007199254740993 into another number and 1.0 into 1, so payloads are
// read into a tree that keeps the text of each number and string.

export type Json =
  | { kind: "object"; entries: { key: string; name: string; value: Json }[] }
  | { kind: "array"; items: Json[] }
  | { kind: "string" | "number" | "literal"; text: string };

/** A piece of a printed line. */
export interface Token {
  kind: "key" | "string" | "number" | "literal" | "mark" | "fold";
  text: string;
}

export interface Line {
  depth: number;
  tokens: Token[];
  /** The number of the object or list that begins in this line. */
  node?: number;
  folded?: boolean;
}

const DEPTH_MAX = 500;
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;

/** An error of JSON, with the place where reading stopped. */
export class JsonError extends Error {
  constructor(message: string, at: number, text: string) {
    const before = text.slice(0, at).split("\n");
    super(`${message} in line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`);
  }
}

/** Reads a text. Throws JsonError where it is no JSON. */
export function parse(text: string): Json {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.space();
  if (reader.at < text.length) reader.fail("There is something after the value");
  return value;
}

/** Whether a text is one JSON number. */
export function isNumber(text: string): boolean {
  NUMBER.lastIndex = 0;
  return NUMBER.exec(text)?.[0] === text;
}

/** The text that a JSON string stands for. */
export function unquote(text: string): string {
  return JSON.parse(text) as string;
}

class Reader {
  at = 0;

  constructor(private readonly text: string) {}

  fail(message: string): never {
    throw new JsonError(message, this.at, this.text);
  }

  space(): void {
    this.match(SPACE);
  }

  value(depth: number): Json {
    if (depth > DEPTH_MAX) this.fail("Nested too deep");
    this.space();
    const first = this.text[this.at];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    if (first === '"') return { kind: "string", text: this.string() };
    const literal = this.match(LITERAL);
    if (literal) return { kind: "literal", text: literal };
    const number = this.match(NUMBER);
    if (number) return { kind: "number", text: number };
    return this.fail(first === undefined ? "The text ends too early" : "A value is expected");
  }

  private object(depth: number): Json {
    const entries: { key: string; name: string; value: Json }[] = [];
    this.at += 1;
    this.space();
    if (this.taken("}")) return { kind: "object", entries };
    for (;;) {
      this.space();
      const key = this.string();
      this.space();
      if (!this.taken(":")) this.fail("A colon is expected");
      entries.push({ key, name: unquote(key), value: this.value(depth + 1) });
      this.space();
      if (this.taken("}")) return { kind: "object", entries };
      if (!this.taken(",")) this.fail("A comma or } is expected");
    }
  }

  private array(depth: number): Json {
    const items: Json[] = [];
    this.at += 1;
    this.space();
    if (this.taken("]")) return { kind: "array", items };
    for (;;) {
      items.push(this.value(depth + 1));
      this.space();
      if (this.taken("]")) return { kind: "array", items };
      if (!this.taken(",")) this.fail("A comma or ] is expected");
    }
  }

  private string(): string {
    return this.match(STRING) || this.fail("A string is expected");
  }

  private taken(mark: string): boolean {
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }
}

/** Returns the lines of a value. The objects and lists with these numbers, in the order of the text, are one line each. */
export function print(value: Json, folded: ReadonlySet<number> = new Set()): Line[] {
  const lines: Line[] = [];
  let nodes = 0;
  let line: Line = { depth: 0, tokens: [] };
  const put = (kind: Token["kind"], text: string) => line.tokens.push({ kind, text });
  const next = (depth: number) => {
    lines.push(line);
    line = { depth, tokens: [] };
  };
  const visit = (one: Json, depth: number, isHidden: boolean): void => {
    if (one.kind !== "object" && one.kind !== "array") {
      if (!isHidden) put(one.kind, one.text);
      return;
    }
    const node = nodes++;
    const [open, close] = one.kind === "object" ? "{}" : "[]";
    const size = sizeOf(one);
    const isFolded = folded.has(node) && size > 0;
    if (!isHidden) {
      put("mark", open! + (size ? "" : close));
      if (size) Object.assign(line, { node, folded: isFolded });
      if (isFolded) put("fold", ` ${size} ${one.kind === "object" ? "member" : "item"}${size === 1 ? "" : "s"} `);
    }
    const hides = isHidden || isFolded;
    for (let index = 0; index < size; index++) {
      if (!hides) next(depth + 1);
      const entry = one.kind === "object" ? one.entries[index] : undefined;
      if (entry && !hides) {
        put("key", entry.key);
        put("mark", ": ");
      }
      visit(entry?.value ?? (one as { items: Json[] }).items[index]!, depth + 1, hides);
      if (index < size - 1 && !hides) put("mark", ",");
    }
    if (!size || isHidden) return;
    if (!isFolded) next(depth);
    put("mark", close!);
  };
  visit(value, 0, false);
  lines.push(line);
  return lines;
}

function sizeOf(value: Json): number {
  return value.kind === "object" ? value.entries.length : value.kind === "array" ? value.items.length : 0;
}

/** Returns what to fold so that the deepest levels that don't fit into so many lines are closed. */
export function foldedFor(value: Json, linesMax: number): Set<number> {
  const sizes: number[] = [];
  const nodes: number[] = [];
  const visit = (one: Json, depth: number): void => {
    const size = sizeOf(one);
    if (one.kind !== "object" && one.kind !== "array") return;
    nodes.push(depth);
    sizes[depth] = (sizes[depth] ?? 0) + (size ? size + 1 : 0);
    for (const item of one.kind === "object" ? one.entries : one.items) visit("name" in item ? item.value : item, depth + 1);
  };
  visit(value, 0);
  let depth = 1;
  for (let lines = 1 + (sizes[0] ?? 0); depth < sizes.length && lines + sizes[depth]! <= linesMax; depth++) lines += sizes[depth]!;
  return new Set(nodes.flatMap((one, node) => (one >= depth ? [node] : [])));
}

/** Returns a value as one compact text. */
export function compact(value: Json): string {
  if (value.kind === "object") {
    return `{${value.entries.map((one) => `${one.key}:${compact(one.value)}`).join(",")}}`;
  }
  if (value.kind === "array") return `[${value.items.map(compact).join(",")}]`;
  return value.text;
}

/** Returns the member of an object; of several with that name the last. */
export function member(value: Json | undefined, name: string): Json | undefined {
  if (value?.kind !== "object") return undefined;
  return value.entries.findLast((one) => one.name === name)?.value;
}

/** Returns the text of a string value. */
export function textOf(value: Json | undefined): string | undefined {
  return value?.kind === "string" ? unquote(value.text) : undefined;
}
