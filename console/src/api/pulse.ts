// What happens on a server: the samples that it kept in the last hour, and then what is counted from the stream of runs while
// the page looks, one sample every ten seconds.
import type { WatchRunsResponse } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { isEnded } from "../model/words.ts";
import { BASE } from "../ui/router.ts";
import { Changing } from "../ui/store.ts";
import { api, pages } from "./client.ts";
import { follow, SIGN_OF_LIFE_S, type Taken } from "./follow.ts";
import { session } from "./session.ts";

export const SAMPLE_MS = 10_000;
const SAMPLES = 360;
/** Runs of a status are counted up to here. */
export const COUNT_MAX = 1_000;

export interface Series {
  title: string;
  samples: number[];
}

const UNFINISHED = [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED];

export class Pulse extends Changing {
  readonly commits: Series = { title: "Commits to runs, a second", samples: [] };
  readonly ended: Series = { title: "Runs that ended, a second", samples: [] };
  readonly running: Series = { title: "Runs under way", samples: [] };
  readonly queued: Series = { title: "Runs that are queued", samples: [] };
  /** How many unfinished runs stand where. */
  counts = new Map<RunStatus, number>();
  private cursor = "now";
  private seen = { commits: 0, ended: 0 };
  private readonly versions = new Map<string, bigint>();

  get series(): Series[] {
    return [this.commits, this.ended, this.running, this.queued];
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
        return true;
      },
    });
    const timer = setInterval(() => void this.sample(), SAMPLE_MS);
    void this.count();
    void this.readLastHour();
    return () => {
      stop();
      clearInterval(timer);
    };
  }

  private take(message: WatchRunsResponse["message"]): Taken {
    if (message.case === "updates") {
      for (const { run, runId, version, deleted } of message.value.updates) {
        if (deleted) this.versions.delete(runId);
        if (!run || deleted) continue;
        const before = this.versions.get(runId) ?? version - 1n;
        this.seen.commits += Number(version - before);
        this.versions.set(runId, version);
        if (isEnded(run)) {
          this.seen.ended += 1;
          this.versions.delete(runId);
        }
      }
    }
    if (message.case === "updates" || message.case === "progress") this.cursor = message.value.resumeToken;
    return "more";
  }

  private async sample(): Promise<void> {
    if (document.visibilityState !== "visible") return;
    await this.count();
    const seconds = SAMPLE_MS / 1_000;
    put(this.commits, this.seen.commits / seconds);
    put(this.ended, this.seen.ended / seconds);
    put(this.running, this.counts.get(RunStatus.RUNNING) ?? 0);
    put(this.queued, this.counts.get(RunStatus.QUEUED) ?? 0);
    this.seen = { commits: 0, ended: 0 };
    this.changed();
  }

  /** Begins with what the server has kept. A server elsewhere has kept nothing for this page. */
  private async readLastHour(): Promise<void> {
    try {
      const answer = await fetch(`${BASE}/pulse`, { headers: { Authorization: `Bearer ${session.get()?.key}` } });
      if (!answer.ok || !answer.headers.get("content-type")?.startsWith("application/json")) return;
      const kept = (await answer.json()) as Record<string, number[]>;
      this.commits.samples.unshift(...(kept["commits"] ?? []));
      this.ended.samples.unshift(...(kept["ended"] ?? []));
      this.running.samples.unshift(...(kept["running"] ?? []));
      this.queued.samples.unshift(...(kept["queued"] ?? []));
      this.changed();
    } catch {
      // The charts begin now.
    }
  }

  private async count(): Promise<void> {
    try {
      for (const status of UNFINISHED) {
        let found = 0;
        const list = (pageToken: string) => api.listRuns({ statuses: [status], pageSize: COUNT_MAX, pageToken });
        for await (const page of pages(list)) {
          found += page.runs.length;
          if (found >= COUNT_MAX) break;
        }
        this.counts.set(status, found);
      }
      this.changed();
    } catch {
      // The next time will tell; the banner says that the server is away.
    }
  }
}

function put(series: Series, value: number): void {
  series.samples.push(value);
  series.samples.splice(0, series.samples.length - SAMPLES);
}
