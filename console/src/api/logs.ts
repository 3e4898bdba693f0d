// A run's log, as it comes.
import { Code, ConnectError } from "@connectrpc/connect";
import { type WatchLogsResponse, WatchEndReason } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { type LogEntry, LogKind } from "../gen/stepwell/v1/types_pb.ts";
import { Changing } from "../ui/store.ts";
import { api, type Problem, problem } from "./client.ts";
import { follow, SIGN_OF_LIFE_S, type Taken } from "./follow.ts";

/** A line, or chunks of one attempt that came one after the other. */
export interface Block {
  number: number;
  entry: LogEntry;
  text: string;
}

const BLOCKS_MAX = 5_000;
const BLOCK_CHARS_MAX = 20_000;

export class LogStore extends Changing {
  blocks: Block[] = [];
  problem: Problem | undefined;
  ended = false;
  /** How many blocks are not shown any more. */
  dropped = 0;
  private cursor = "";
  private count = 0;

  constructor(
    readonly runId: string,
    readonly taskId: string,
  ) {
    super();
  }

  start(): () => void {
    return follow<WatchLogsResponse>({
      open: (signal) =>
        api.watchLogs(
          {
            runId: this.runId,
            taskId: this.taskId,
            resumeToken: this.cursor,
            follow: true,
            progressInterval: { seconds: BigInt(SIGN_OF_LIFE_S), nanos: 0 },
          },
          { signal },
        ),
      take: ({ message }) => this.take(message),
      failed: (error) => {
        this.problem = problem(error);
        this.changed();
        return ConnectError.from(error).code === Code.OutOfRange;
      },
    });
  }

  private take(message: WatchLogsResponse["message"]): Taken {
    if (message.case === undefined) return "more";
    if (message.case === "entries") for (const entry of message.value.entries) this.put(entry);
    this.cursor = message.value.resumeToken;
    this.changed();
    if (message.case !== "end" || message.value.reason !== WatchEndReason.FINISHED) return "more";
    this.ended = true;
    return "end";
  }

  private put(entry: LogEntry): void {
    const last = this.blocks.at(-1);
    const goesOn =
      entry.kind === LogKind.CHUNK &&
      last?.entry.kind === LogKind.CHUNK &&
      last.entry.executionId === entry.executionId &&
      last.text.length < BLOCK_CHARS_MAX;
    // Blocks are replaced, not changed, so that only the last one is drawn again.
    if (goesOn) this.blocks[this.blocks.length - 1] = { ...last, text: last.text + entry.text };
    else this.blocks.push({ number: this.count++, entry, text: entry.text });
    if (this.blocks.length > BLOCKS_MAX) {
      const more = BLOCKS_MAX / 5;
      this.blocks.splice(0, more);
      this.dropped += more;
    }
  }
}
