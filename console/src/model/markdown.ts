// Markdown as a tree of blocks and spans, for what agents write: headings, lists, quotes, code, tables, emphasis and links.
// HTML in it is text like any other.

export type Span =
  | { kind: "text" | "code"; text: string }
  | { kind: "strong" | "em"; spans: Span[] }
  | { kind: "link"; spans: Span[]; to: string };

export type Block =
  | { kind: "heading"; level: number; spans: Span[] }
  | { kind: "paragraph"; spans: Span[] }
  | { kind: "code"; text: string }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; start: number | undefined; items: Block[][] }
  | { kind: "table"; head: Span[][]; rows: Span[][][] }
  | { kind: "rule" };

const DEPTH_MAX = 8;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)(.*)$/;
const FENCE = /^ {0,3}(```+|~~~+)/;
const ROW = /^\s*\|.*\|\s*$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const MARKS = /^(#{1,6} |\s*([-*+]|\d+[.)]) |```|~~~|> |\|.*\|\s*$)|\*\*\S|`[^`\n]{1,500}`|\[[^\]\n]{1,500}\]\(/m;

/** Whether a text has any of the marks that Markdown would show otherwise. */
export function isMarkdown(text: string): boolean {
  return MARKS.test(text);
}

/** Reads a text. Any text is Markdown. */
export function markdown(text: string): Block[] {
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

function blocks(lines: string[], depth: number): Block[] {
  const found: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    const [block, next] = blockAt(lines, at, depth);
    if (block) found.push(block);
    at = next;
  }
  return found;
}

/** Returns the block that begins in a line, and the line after it. */
function blockAt(lines: string[], at: number, depth: number): [Block | undefined, number] {
  const line = lines[at]!;
  if (!line.trim()) return [undefined, at + 1];
  const fence = FENCE.exec(line)?.[1];
  if (fence) {
    let end = at + 1;
    while (end < lines.length && !lines[end]!.trim().startsWith(fence)) end++;
    return [{ kind: "code", text: lines.slice(at + 1, end).join("\n") }, end + 1];
  }
  const heading = /^ {0,3}(#{1,6}) +(.*)$/.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1]!.length, spans: spans(heading[2]!) }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (depth < DEPTH_MAX && /^ {0,3}>/.test(line)) {
    const end = until(lines, at, (one) => /^ {0,3}>/.test(one));
    const inner = lines.slice(at, end).map((one) => one.replace(/^ {0,3}> ?/, ""));
    return [{ kind: "quote", blocks: blocks(inner, depth + 1) }, end];
  }
  if (depth < DEPTH_MAX && ITEM.test(line)) return listAt(lines, at, depth);
  if (ROW.test(line) && /^\s*\|( *:?-+:? *\|)+\s*$/.test(lines[at + 1] ?? "")) {
    const end = until(lines, at + 2, (one) => ROW.test(one));
    const rows = lines.slice(at + 2, end).map((one) => cells(one).map((cell) => spans(cell)));
    return [{ kind: "table", head: cells(line).map((cell) => spans(cell)), rows }, end];
  }
  const end = until(lines, at + 1, (one) => !!one.trim() && !FENCE.test(one) && !/^ {0,3}(#{1,6} |>)/.test(one) && !ITEM.test(one));
  return [{ kind: "paragraph", spans: spans(lines.slice(at, end).join("\n")) }, end];
}

function until(lines: string[], at: number, goesOn: (line: string) => boolean): number {
  while (at < lines.length && goesOn(lines[at]!)) at++;
  return at;
}

/** A list: each item with the lines after it that are further in. */
function listAt(lines: string[], at: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[at]!)!;
  const isOrdered = /\d/.test(first[2]!);
  const items: Block[][] = [];
  let next = at;
  for (let item; (item = ITEM.exec(lines[next] ?? "")) && /\d/.test(item[2]!) === isOrdered; ) {
    const inner = [item[4]!];
    const indent = item[1]!.length + item[2]!.length + 1;
    for (next++; next < lines.length; next++) {
      const line = lines[next]!;
      const isIn = /^\s*/.exec(line)![0].length >= Math.min(indent, 2);
      const goesOn = line.trim() ? isIn : /^\s{2}/.test(lines[next + 1] ?? "");
      if (!goesOn) break;
      inner.push(line.replace(new RegExp(`^\\s{0,${indent}}`), ""));
    }
    items.push(blocks(inner, depth + 1));
    // One empty line may stand between two items.
    if (!lines[next]?.trim() && ITEM.test(lines[next + 1] ?? "")) next++;
  }
  return [{ kind: "list", start: isOrdered ? Number.parseInt(first[2]!, 10) : undefined, items }, next];
}

function cells(line: string): string[] {
  return line.trim().slice(1, -1).split("|").map((one) => one.trim());
}

/** No span is longer than some hundred characters, so that a text of nothing but marks is read in good time. */
const SPAN =
  /(`+)([\s\S]{0,500}?[^`])\1(?!`)|\*\*(?=\S)([\s\S]{0,500}?\S)\*\*(?!\*)|(?<![\w*])([*_])(?=\S)([^*_]{0,500}?\S)\4(?!\w)|!?\[([^\]\n]{0,500})\]\(([^)\s]{0,2000})\)|\\([\\`*_{}[\]()#+.!|-])/g;

/** Reads what stands within a line. Only links to http and https are links. */
export function spans(text: string, depth = 0): Span[] {
  const found: Span[] = [];
  const put = (part: string) => {
    const last = found.at(-1);
    if (last?.kind === "text") last.text += part;
    else if (part) found.push({ kind: "text", text: part });
  };
  let at = 0;
  for (const one of text.matchAll(SPAN)) {
    const [whole, , code, strong, , em, label, to, escaped] = one;
    put(text.slice(at, one.index));
    at = one.index + whole.length;
    if (code !== undefined) found.push({ kind: "code", text: code });
    else if (escaped !== undefined) put(escaped);
    else if (depth >= DEPTH_MAX) put(whole);
    else if (strong !== undefined) found.push({ kind: "strong", spans: spans(strong, depth + 1) });
    else if (em !== undefined) found.push({ kind: "em", spans: spans(em, depth + 1) });
    else if (/^https?:\/\//i.test(to!) && !whole.startsWith("!")) found.push({ kind: "link", spans: spans(label!, depth + 1), to: to! });
    else put(whole);
  }
  put(text.slice(at));
  return found;
}
