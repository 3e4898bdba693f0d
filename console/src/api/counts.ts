// How many runs of a filter's pipeline and labels stand where, kept up to date by the list that follows them.
import { RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { Changing } from "../ui/store.ts";
import { api } from "./client.ts";
import type { RunList } from "./runs.ts";

/** Runs of a status are counted up to here. */
export const COUNTED_MAX = 100;
/** What is counted: the others only grow. */
const STATUSES = [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.FAILED];
/** Runs change often; they are counted again at most so often. */
const READ_MS = 3_000;

export class Counts extends Changing {
  found = new Map<RunStatus, number>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;

  /** Counts now, and after each change of the list, until the returned function is called. */
  start(list: RunList): () => void {
    void this.read(list);
    const stop = list.listen(() => (this.timer ??= setTimeout(() => void this.read(list), READ_MS)));
    return () => {
      this.stopped = true;
      stop();
      clearTimeout(this.timer);
    };
  }

  private async read(list: RunList): Promise<void> {
    const { pipelineId, labels } = list.filter;
    try {
      const pages = await Promise.all(
        STATUSES.map((one) => api.listRuns({ statuses: [one], pipelineId, labels, pageSize: COUNTED_MAX })),
      );
      this.found = new Map(STATUSES.map((one, at) => [one, pages[at]!.runs.length]));
    } catch {
      // The next change will tell.
    }
    this.timer = undefined;
    if (!this.stopped) this.changed();
  }
}
