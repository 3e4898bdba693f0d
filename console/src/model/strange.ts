// Text of strangers: characters that can't be seen, or that turn what stands beside them round, are shown by name.

const CONTROLS =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");
const NAMES: Record<number, string> = {
  0x7f: "DEL",
  0x85: "NEL",
  0xad: "SHY",
  0x61c: "ALM",
  0x180e: "MVS",
  0x200b: "ZWSP",
  0x200e: "LRM",
  0x200f: "RLM",
  0x2028: "LS",
  0x2029: "PS",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2060: "WJ",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
  0xfeff: "BOM",
};
/** All but tabs, line ends and the joiners, which words and emoji need. */
const STRANGE =
  /[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]|\r(?!\n)/gu;
/** The sequences of a terminal that choose a colour or a weight. */
const COLOURS = /\x1b\[([0-9;]*)m/g;

export interface Piece {
  text: string;
  /** The code point, where the text is the name of a character. */
  code?: string;
  /** Classes by which it is coloured. */
  tone?: string;
}

function codeOf(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

function nameOf(character: string): string {
  const code = character.codePointAt(0)!;
  return CONTROLS[code] ?? NAMES[code] ?? codeOf(character);
}

/** Returns a text in which each such character is its name: `⟨RLO⟩`. */
export function visible(text: string): string {
  return text.replace(STRANGE, (one) => `⟨${nameOf(one)}⟩`);
}

/** Returns the pieces of a text: plain, names of characters, and what a terminal would colour. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let tone = "";
  let at = 0;
  for (const sequence of text.matchAll(COLOURS)) {
    named(text.slice(at, sequence.index), tone, found);
    tone = toneAfter(tone, sequence[1]!);
    at = sequence.index + sequence[0].length;
  }
  named(text.slice(at), tone, found);
  return found;
}

function named(text: string, tone: string, into: Piece[]): void {
  const put = (part: string) => part && into.push(tone ? { text: part, tone } : { text: part });
  let at = 0;
  for (const one of text.matchAll(STRANGE)) {
    put(text.slice(at, one.index));
    into.push({ text: nameOf(one[0]), code: codeOf(one[0]) });
    at = one.index + one[0].length;
  }
  put(text.slice(at));
}

/** The classes after a sequence. Of colours only the sixteen that have names are followed; grounds are not. */
function toneAfter(before: string, codes: string): string {
  const tone = new Set(before.split(" ").filter(Boolean));
  const without = (start: string) => [...tone].filter((one) => one.startsWith(start)).forEach((one) => tone.delete(one));
  const list = codes.split(";").map(Number);
  for (let at = 0; at < list.length; at++) {
    const code = list[at]!;
    if (code === 0) tone.clear();
    if (code === 1) tone.add("strong");
    if (code === 22) tone.delete("strong");
    const colour = code >= 30 && code <= 37 ? code - 30 : code >= 90 && code <= 97 ? code - 90 : -1;
    if (colour >= 0 || code === 38 || code === 39) without("ansi-");
    if (colour >= 0) tone.add(`ansi-${colour}`);
    // A colour out of 256, or one that is mixed, is followed by numbers of its own.
    if (code === 38 || code === 48) at += list[at + 1] === 5 ? 2 : 4;
  }
  return [...tone].join(" ");
}
