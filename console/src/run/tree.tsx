// The place of a run in its tree: the run that started it, and the child runs that it has started.
import { useState } from "preact/hooks";
import { api } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import type { Run } from "../gen/stepwell/v1/types_pb.ts";
import { cost, count, number, shortId, span } from "../model/text.ts";
import { blocked, failureLine, isEnded, runTitle, took } from "../model/words.ts";
import { Problems, StatusPill, useLoad, useNow } from "../ui/parts.tsx";
import { runPath } from "../ui/router.ts";

const PAGE = 100;
/** Children that haven't ended are read again after so long. */
const AGAIN_MS = 5_000;

export function isInTree(run: Run): boolean {
  return run.children > 0 || Boolean(run.spec!.childOf);
}

/** Reads the newest children, so many pages of them, and whether there are more. */
async function read(childOf: string, pages: number): Promise<{ runs: Run[]; more: boolean }> {
  const runs: Run[] = [];
  let pageToken = "";
  for (let at = 0; at < pages; at++) {
    const page = await api.listRuns({ childOf, pageSize: PAGE, pageToken });
    runs.push(...page.runs);
    pageToken = page.nextPageToken;
    if (!pageToken) break;
  }
  return { runs, more: Boolean(pageToken) };
}

/** With a task, only the children that it started. */
export function TreeTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const { run } = store.view!;
  const { runId, childOf } = run.spec!;
  const current = useNow();
  const [pages, setPages] = useState(1);
  const [live, setLive] = useState(true);
  const turn = live ? Math.floor(current / AGAIN_MS) : "";
  const above = useLoad(`${childOf?.runId}/${turn}`, async () => (childOf ? (await api.getRun({ runId: childOf.runId })).run : undefined));
  const { value, problem } = useLoad(`${runId}/${run.children}/${run.status}/${pages}/${turn}`, async () => {
    const found = run.children ? await read(runId, pages) : { runs: [], more: false };
    setLive([run, ...found.runs].some((one) => !isEnded(one)));
    return found;
  });
  const root = childOf?.rootRunId ?? runId;
  return (
    <div class="fill scroll-y stack kin">
      <div class="row tools">
        <small>{run.children > 0 ? `${count(run.children, "child run")} started` : "No child runs"}</small>
        <a href={`/runs?q=${encodeURIComponent(`stepwell.root=${root}`)}`}>All child runs of its tree</a>
      </div>
      <Problems of={problem} />
      {above.value && <Kin run={above.value} is="parent" now={current} />}
      <Kin run={run} is="this run" now={current} />
      {value?.runs
        .filter((one) => !taskId || one.spec!.childOf?.taskId === taskId)
        .map((one) => <Kin key={one.spec!.runId} run={one} is={one.spec!.childOf?.taskId || "child"} now={current} level={2} />)}
      {value?.more && (
        <button type="button" onClick={() => setPages(pages + 1)}>
          More child runs
        </button>
      )}
    </div>
  );
}

function Kin({ run, is, now, level = 1 }: { run: Run; is: string; now: number; level?: number }) {
  const { runId } = run.spec!;
  const spent = run.usage?.costMicros;
  const facts = [
    failureLine(run.failure) || blocked(run),
    run.children && level > 1 ? `${number(run.children)} below` : "",
    spent ? cost(spent) : "",
  ];
  return (
    <a class={`task-row level-${is === "parent" ? 0 : level}`} href={runPath(runId, "tree")} aria-current={is === "this run" || undefined}>
      <StatusPill status={run.status} />
      <span class="clip">
        <b>{runTitle(run)}</b> <small>{`${is} · ${shortId(runId)}`}</small>
      </span>
      <small class="clip">{facts.filter(Boolean).join(" · ")}</small>
      <small>{run.startedTime && span(took(run, now))}</small>
    </a>
  );
}
