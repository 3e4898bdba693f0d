// One run, live: its rows, its events, and other reads.
import { Code, ConnectError } from "@connectrpc/connect";
import { WatchEndReason, type WatchRunResponse } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { BlockedKind, type Event, type Run, RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { EventLog, RunView } from "../model/runView.ts";
import { isEnded } from "../model/words.ts";
import { Changing } from "../ui/store.ts";
import { api, pages, type Problem, problem } from "./client.ts";
import { follow, SIGN_OF_LIFE_S, type Taken } from "./follow.ts";

/** So many events before the run's last one are read at first. */
const EVENTS_AT_FIRST = 500n;
const EVENTS_A_PAGE = 1_000n;
const TASKS_A_PAGE = 1_000;
/** More events than these are not kept in the page; older ones can be read again. */
const EVENTS_MAX = 20_000;
/** Whether a worker is missing or busy is no event: it is asked for so often while a run waits for one. */
const ASK_MS = 3_000;

export class RunStore extends Changing {
  view: RunView | undefined;
  readonly log = new EventLog();
  problem: Problem | undefined;
  deleted = false;
  /** Whether all tasks have been listed. */
  listed = false;
  /** Whether all executions have been listed; only some pages need them. */
  executionsListed = false;
  private stop: (() => void) | undefined;
  private stopped = false;
  private held = false;
  /** Events up to this number are in the rows that were read. */
  private applied = 0n;
  private queue: Promise<unknown> = Promise.resolve();
  private asker: ReturnType<typeof setInterval> | undefined;

  constructor(readonly runId: string) {
    super();
  }

  start(): () => void {
    void this.open();
    this.asker = setInterval(() => void this.ask(), ASK_MS);
    return () => {
      this.stopped = true;
      this.stop?.();
      clearInterval(this.asker);
    };
  }

  private async open(): Promise<void> {
    let wait = 250;
    while (!this.stopped && !this.listed) {
      try {
        const run = (await api.getRun({ runId: this.runId })).run!;
        if (this.stopped) return;
        this.view = new RunView(run);
        this.applied = run.lastEvent;
        this.problem = undefined;
        this.changed();
        await Promise.all([this.listTasks(), this.listQuestions()]);
        this.listed = true;
        this.changed();
        this.follow();
      } catch (error) {
        const one = problem(error);
        const away = ConnectError.from(error).code === Code.Unavailable || !one.reason;
        if (!away || !this.view) this.problem = one;
        this.changed();
        if (!away) return;
        await new Promise((resolve) => setTimeout(resolve, wait));
        wait = Math.min(2 * wait, 5_000);
      }
    }
  }

  private async listQuestions(): Promise<void> {
    const { questions } = this.view!;
    for await (const page of pages((pageToken) => api.listQuestions({ runId: this.runId, pageToken }))) {
      for (const { question } of page.questions) if (question) questions.set(question.questionId, question);
    }
  }

  private async listTasks(): Promise<void> {
    const view = this.view!;
    const list = (pageToken: string) =>
      api.listTasks({ runId: this.runId, pageSize: TASKS_A_PAGE, pageToken });
    for await (const page of pages(list)) {
      if (this.stopped) return;
      view.addTasks(page.tasks);
      this.changed();
    }
  }

  /** Reads all executions, for pages that show every attempt. */
  listExecutions(): Promise<void> {
    return this.serially(async () => {
      if (this.executionsListed || !this.view) return;
      const list = (pageToken: string) =>
        api.listExecutions({ runId: this.runId, pageSize: 1_000, pageToken });
      for await (const page of pages(list)) {
        if (this.stopped) return;
        this.view.addExecutions(page.executions);
      }
      this.executionsListed = true;
      this.changed();
    });
  }

  /** Runs one thing after another, so that a listing never overwrites rows that events have changed since. */
  private serially<T>(work: () => Promise<T>): Promise<T> {
    const done = this.queue.then(work);
    this.queue = done.catch(() => undefined);
    return done;
  }

  private follow(): void {
    this.stop?.();
    this.stop = undefined;
    if (this.stopped || this.held) return;
    if (!this.log.events.length) this.firstWanted = this.applied - EVENTS_AT_FIRST;
    this.stop = follow<WatchRunResponse>({
      open: (signal) =>
        api.watchRun(
          {
            runId: this.runId,
            resumeToken: String(this.log.events.length ? this.log.last : max(this.firstWanted, 0n)),
            progressInterval: { seconds: BigInt(SIGN_OF_LIFE_S), nanos: 0 },
          },
          { signal },
        ),
      take: (message) => this.serially(() => this.take(message)),
      failed: (error) => this.failed(error),
    });
  }

  private firstWanted = 0n;

  private async take({ message }: WatchRunResponse): Promise<Taken> {
    if (message.case === "events") {
      for (const event of message.value.events) await this.takeEvent(event);
      this.changed();
    } else if (message.case === "end") {
      const { reason, run } = message.value;
      if (reason === WatchEndReason.PURGED) {
        this.deleted = true;
        this.changed();
        return "end";
      }
      if (reason === WatchEndReason.FINISHED) {
        if (run) this.takeRun(run);
        // A failed run may be resumed.
        return run?.status === RunStatus.FAILED ? "later" : "end";
      }
    }
    return "more";
  }

  private async takeEvent(event: Event): Promise<void> {
    if (this.log.events.length && event.number <= this.log.last) return;
    if (!this.log.add(event)) throw new Gap(`event ${event.number} came too early`);
    if (this.log.events.length > EVENTS_MAX) this.log.events.splice(0, EVENTS_MAX / 4);
    if (event.number <= this.applied) return;
    const view = this.view!;
    if (view.lacksTasks(event)) await this.listTasks();
    view.apply(event);
    this.applied = event.number;
  }

  private takeRun(run: Run): void {
    if (this.view && run.version >= this.view.run.version) this.view.run = run;
    this.changed();
  }

  private failed(error: unknown): boolean {
    // It is read again from the last event that is here.
    if (error instanceof Gap) return true;
    if (ConnectError.from(error).code === Code.OutOfRange) {
      // The oldest events are no longer kept, so the page starts over with the current ones.
      if (this.log.events.length) void this.restart();
      else this.firstWanted = this.applied;
      return !this.log.events.length;
    }
    this.problem = problem(error);
    this.changed();
    return false;
  }

  private async restart(): Promise<void> {
    this.stop?.();
    this.log.events.length = 0;
    this.listed = this.executionsListed = false;
    await this.open();
  }

  /** Asks for the run itself where no event tells what it waits for. */
  private async ask(): Promise<void> {
    const run = this.view?.run;
    if (!run || isEnded(run) || document.visibilityState !== "visible") return;
    const waits = run.blockedOn === BlockedKind.WORKER || run.blockedOn === BlockedKind.CAPACITY;
    if (waits || this.held) await this.refresh();
  }

  async refresh(): Promise<void> {
    try {
      const { run } = await api.getRun({ runId: this.runId });
      if (run && !this.stopped) this.takeRun(run);
    } catch {
      // The next time will tell.
    }
  }

  /** Shows what a command has changed, and follows a run that goes on again. */
  commanded(run: Run | undefined): void {
    if (run) this.takeRun(run);
    if (!this.held) this.follow();
  }

  /** Closes the stream while the page holds another one, and opens it again from where it was. */
  hold(held: boolean): void {
    if (held === this.held) return;
    this.held = held;
    if (held) {
      this.stop?.();
      this.stop = undefined;
    } else if (this.listed) {
      this.follow();
    }
  }

  /** Reads events before those that are here. */
  async earlier(): Promise<void> {
    const first = this.log.first;
    if (first <= 1n) return;
    const wasHeld = this.held;
    this.hold(true);
    const once = new AbortController();
    const older: Event[] = [];
    try {
      const after = max(first - 1n - EVENTS_A_PAGE, 0n);
      const stream = api.watchRun({ runId: this.runId, resumeToken: String(after) }, { signal: once.signal });
      for await (const { message } of stream) {
        if (message.case === "events") older.push(...message.value.events);
        if (message.case !== "events" || BigInt(message.value.resumeToken) >= first - 1n) break;
      }
    } finally {
      once.abort();
      this.log.prepend(older);
      if (!wasHeld) this.hold(false);
      this.changed();
    }
  }
}

/** An event came before one that it follows. */
class Gap extends Error {}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
