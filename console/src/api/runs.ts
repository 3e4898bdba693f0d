// The list of runs, live.
import { WatchEndReason, type WatchRunsResponse } from "../gen/stepwell/v1/orchestrator_pb.ts";
import type { BlockedKind, Run, RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { ms } from "../model/text.ts";
import { Changing } from "../ui/store.ts";
import { Code, ConnectError } from "@connectrpc/connect";
import { api, type Problem, problem } from "./client.ts";
import { follow, SIGN_OF_LIFE_S, type Taken } from "./follow.ts";

export interface Filter {
  statuses: RunStatus[];
  blockedOn: BlockedKind[];
  pipelineId: string;
  labels: Record<string, string>;
  prefix: string;
  /** Words of the goal, in lower case; looked for page by page. */
  words: string[];
}

const PAGE = 200;
const SCAN_PAGE = 1_000;
/** So many runs are looked at for words of a goal before the person is asked whether to look on. */
const SCAN_MAX = 5_000;
/** Looking for words pauses when it has found so many. */
const ROWS_WANTED = 50;

/** Runs that match a filter, newest first. */
export class RunList extends Changing {
  runs: Run[] = [];
  problem: Problem | undefined;
  /** Whether the first page has come. */
  ready = false;
  /** How many runs were looked at. */
  looked = 0;
  /** Whether all runs that there are have been looked at. */
  complete = false;
  busy = false;
  private readonly byId = new Map<string, Run>();
  private readonly deleted = new Set<string>();
  private token = "";
  private cursor = "now";
  private stop: (() => void) | undefined;
  private stopped = false;
  private allowed = SCAN_MAX;

  constructor(readonly filter: Filter) {
    super();
  }

  /** Begins, and returns the function that ends it. */
  start(): () => void {
    this.stop = follow<WatchRunsResponse>({
      open: (signal) =>
        api.watchRuns(
          {
            resumeToken: this.cursor,
            pipelineId: this.filter.pipelineId,
            labels: this.filter.labels,
            progressInterval: { seconds: BigInt(SIGN_OF_LIFE_S), nanos: 0 },
          },
          { signal },
        ),
      take: (message) => this.take(message),
      failed: (error) => this.failed(error),
    });
    return () => {
      this.stopped = true;
      this.stop?.();
    };
  }

  private async take({ message }: WatchRunsResponse): Promise<Taken> {
    if (message.case === "updates") {
      for (const update of message.value.updates) {
        if (update.deleted) this.remove(update.runId);
        else if (update.run) this.put(update.run);
      }
      this.cursor = message.value.resumeToken;
      this.sort();
    } else if (message.case === "progress") {
      this.cursor = message.value.resumeToken;
    } else if (message.case === "end") {
      return message.value.reason === WatchEndReason.FINISHED ? "end" : "more";
    }
    // The list is read once the stream has said where it is, so nothing falls between the two.
    if (!this.ready && !this.busy) await this.more();
    return "more";
  }

  private async failed(error: unknown): Promise<boolean> {
    if (ConnectError.from(error).code === Code.OutOfRange) {
      // It was away for longer than the feed is kept.
      this.cursor = "now";
      this.byId.clear();
      this.token = "";
      this.ready = this.complete = false;
      this.looked = 0;
      return true;
    }
    this.problem = problem(error);
    this.changed();
    return false;
  }

  /** Reads on: a page, or, with words to look for, as many pages as find some or are allowed. */
  async more(further = false): Promise<void> {
    if (this.busy || this.complete || this.stopped) return;
    if (further) this.allowed = this.looked + SCAN_MAX;
    if (this.looked >= this.allowed && this.filter.words.length) return;
    this.busy = true;
    const before = this.byId.size;
    try {
      do {
        const page = await api.listRuns({
          ...this.request(),
          pageSize: this.filter.words.length ? SCAN_PAGE : PAGE,
          pageToken: this.token,
        });
        if (this.stopped) return;
        for (const run of page.runs) this.put(run);
        this.looked += page.runs.length;
        this.token = page.nextPageToken;
        this.complete = !this.token;
        this.ready = true;
        this.sort();
      } while (this.looksOn(before));
      this.problem = undefined;
    } catch (error) {
      if (!this.stopped) this.problem = problem(error);
    } finally {
      this.busy = false;
      this.changed();
    }
  }

  private looksOn(before: number): boolean {
    const few = this.byId.size - before < ROWS_WANTED;
    return this.filter.words.length > 0 && !this.complete && few && this.looked < this.allowed;
  }

  private request() {
    const { statuses, blockedOn, pipelineId, labels, prefix } = this.filter;
    return { statuses, blockedOn, pipelineId, labels, runIdPrefix: prefix };
  }

  private remove(runId: string): void {
    this.deleted.add(runId);
    this.byId.delete(runId);
  }

  private put(run: Run): void {
    const id = run.spec!.runId;
    const before = this.byId.get(id);
    if (this.deleted.has(id) || (before && before.version > run.version)) return;
    if (this.matches(run)) this.byId.set(id, run);
    else this.byId.delete(id);
  }

  private matches(run: Run): boolean {
    const { statuses, blockedOn, prefix, words } = this.filter;
    const goal = words.length ? run.spec!.goal.toLowerCase() : "";
    return (
      (!statuses.length || statuses.includes(run.status)) &&
      (!blockedOn.length || blockedOn.includes(run.blockedOn)) &&
      run.spec!.runId.startsWith(prefix) &&
      words.every((one) => goal.includes(one))
    );
  }

  private sort(): void {
    this.runs = [...this.byId.values()].sort(
      (a, b) => ms(b.createdTime) - ms(a.createdTime) || (a.spec!.runId < b.spec!.runId ? 1 : -1),
    );
    this.changed();
  }
}
