// A run's log, as it comes.
import { Code, ConnectError } from "@connectrpc/connect";
import { type WatchLogsResponse, WatchEndReason } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { asFile, LogText } from "../model/logText.ts";
import { Changing } from "../ui/store.ts";
import { api, type Problem, problem } from "./client.ts";
import { follow, SIGN_OF_LIFE_S, type Taken } from "./follow.ts";

const BLOCKS_MAX = 5_000;

export class LogStore extends Changing {
  readonly log = new LogText(BLOCKS_MAX);
  problem: Problem | undefined;
  ended = false;
  private cursor = "";

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
    if (message.case === "entries") for (const entry of message.value.entries) this.log.put(entry);
    this.cursor = message.value.resumeToken;
    this.changed();
    if (message.case !== "end" || message.value.reason !== WatchEndReason.FINISHED) return "more";
    this.ended = true;
    return "end";
  }

  /** Reads the log again from its beginning, for a file: the page keeps only the last part of a long one. */
  async whole(): Promise<string> {
    const log = new LogText();
    const stop = new AbortController();
    try {
      const stream = api.watchLogs({ runId: this.runId, taskId: this.taskId }, { signal: stop.signal });
      for await (const { message } of stream) {
        if (message.case === "entries") message.value.entries.forEach((one) => log.put(one));
        if (message.case === "end") break;
      }
    } finally {
      stop.abort();
    }
    return asFile(log.blocks);
  }
}
