// The open questions of all runs or of one, kept up to date by the stream of runs.
import type { RunQuestion, WatchRunsResponse } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { QuestionStatus } from "../gen/stepwell/v1/types_pb.ts";
import { Changing } from "../ui/store.ts";
import { api, pages, type Problem, problem } from "./client.ts";
import { follow, SIGN_OF_LIFE_S, type Taken } from "./follow.ts";

/** Runs change often; the questions are read again at most so often. */
const READ_MS = 500;
const QUESTIONS_MAX = 1_000;

export class Inbox extends Changing {
  questions: RunQuestion[] | undefined;
  problem: Problem | undefined;
  private cursor = "now";
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly runId: string) {
    super();
  }

  start(): () => void {
    const stop = follow<WatchRunsResponse>({
      open: (signal) =>
        api.watchRuns(
          { resumeToken: this.cursor, progressInterval: { seconds: BigInt(SIGN_OF_LIFE_S), nanos: 0 } },
          { signal },
        ),
      take: ({ message }) => this.take(message),
      failed: () => {
        this.cursor = "now";
        this.questions = undefined;
        return true;
      },
    });
    return () => {
      stop();
      clearTimeout(this.timer);
    };
  }

  private take(message: WatchRunsResponse["message"]): Taken {
    if (message.case === "updates" || message.case === "progress") this.cursor = message.value.resumeToken;
    const mine =
      message.case === "updates" && message.value.updates.some((one) => !this.runId || one.runId === this.runId);
    if (!this.questions) void this.read();
    else if (mine) this.timer ??= setTimeout(() => void this.read(), READ_MS);
    return "more";
  }

  async read(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    try {
      const found: RunQuestion[] = [];
      for await (const page of pages((pageToken) => api.listQuestions({ runId: this.runId, pageToken }))) {
        found.push(...page.questions.filter((one) => one.question?.status === QuestionStatus.OPEN));
        if (found.length >= QUESTIONS_MAX) break;
      }
      this.questions = found;
      this.problem = undefined;
    } catch (error) {
      this.problem = problem(error);
    }
    this.changed();
  }
}
