// A log as text: the chunks of an attempt are joined, also where those of others came between them.
import { type LogEntry, LogKind } from "../gen/stepwell/v1/types_pb.ts";
import { moment, ms } from "./text.ts";

/** A line, or chunks of one attempt that no line of the same attempt parts. */
export interface Block {
  number: number;
  entry: LogEntry;
  text: string;
}

const BLOCK_CHARS_MAX = 20_000;

export class LogText {
  blocks: Block[] = [];
  /** How many blocks are not kept any more. */
  dropped = 0;
  /** By attempt: the number of the block that its next chunk belongs to. */
  private readonly open = new Map<string, number>();

  constructor(private readonly blocksMax = Number.POSITIVE_INFINITY) {}

  put(entry: LogEntry): void {
    const isChunk = entry.kind === LogKind.CHUNK;
    const at = (isChunk ? (this.open.get(entry.executionId) ?? -1) : -1) - this.dropped;
    const before = this.blocks[at];
    // Blocks are replaced, not changed, so that only these are drawn again.
    if (before && before.text.length < BLOCK_CHARS_MAX) this.blocks[at] = { ...before, text: before.text + entry.text };
    else {
      const number = this.dropped + this.blocks.length;
      this.blocks.push({ number, entry, text: entry.text });
      if (isChunk) this.open.set(entry.executionId, number);
      else this.open.delete(entry.executionId);
    }
    if (this.blocks.length > this.blocksMax) {
      const more = Math.ceil(this.blocksMax / 5);
      this.blocks.splice(0, more);
      this.dropped += more;
    }
  }
}

/** An execution's name as people read it: a task's is `task:ID#ATTEMPT`. */
export function who(executionId: string): string {
  return executionId.replace(/^task:/, "");
}

/** A log as a file: before each entry the time, the attempt and the level. */
export function asFile(blocks: readonly Block[]): string {
  const lines = blocks.map(({ entry, text }) => {
    if (entry.kind === LogKind.CUT) return `… ${text}\n`;
    const level = entry.kind === LogKind.CHUNK ? "" : ` ${entry.level || "INFO"}`;
    const head = `${moment(ms(entry.writtenTime))} ${who(entry.executionId)}${level}`;
    return entry.kind === LogKind.CHUNK ? `${head}\n${text.trimEnd()}\n` : `${head} ${text}\n`;
  });
  return lines.join("");
}

/** Returns the blocks of each attempt, in the order in which the attempts began to write. */
export function byAttempt(blocks: readonly Block[]): [executionId: string, blocks: Block[]][] {
  const found = new Map<string, Block[]>();
  for (const block of blocks) {
    const list = found.get(block.entry.executionId);
    if (list) list.push(block);
    else found.set(block.entry.executionId, [block]);
  }
  return [...found];
}

/** Splits a text at each place where it has the words, whose case doesn't count: every second part is a place. */
export function split(text: string, words: string): string[] {
  const escaped = words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return words ? text.split(new RegExp(`(${escaped})`, "i")) : [text];
}
