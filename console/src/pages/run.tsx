// A run: how it stands, and a tab for each way to look at it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api/client.ts";
import { RunStore } from "../api/runStore.ts";
import { RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { runTitle } from "../model/words.ts";
import { EventsTab } from "../run/events.tsx";
import { GraphTab } from "../run/graph.tsx";
import { Header } from "../run/header.tsx";
import { JournalTab } from "../run/journal.tsx";
import { LogsTab } from "../run/logs.tsx";
import { MessagesTab } from "../run/messages.tsx";
import { PlansTab } from "../run/plans.tsx";
import { ReasonTab } from "../run/reason.tsx";
import { ResultTab } from "../run/result.tsx";
import { SignalsTab } from "../run/signals.tsx";
import { StepPanel } from "../run/stepPanel.tsx";
import { TaskPanel } from "../run/taskPanel.tsx";
import { TasksTab } from "../run/tasks.tsx";
import { TimelineTab } from "../run/timeline.tsx";
import { isInTree, TreeTab } from "../run/tree.tsx";
import { useKeys } from "../ui/keyboard.ts";
import { Empty, Problems, useTitle } from "../ui/parts.tsx";
import { BASE, navigate, runPath, setQuery, useRoute } from "../ui/router.ts";
import { useChanges } from "../ui/store.ts";

/** In these views a task is a filter; the others show it beside them. */
const FILTERED = ["events", "logs", "messages", "journal", "tree"];

const TABS = [
  { path: "graph", title: "Graph", shows: GraphTab },
  { path: "tasks", title: "Tasks", shows: TasksTab },
  { path: "timeline", title: "Timeline", shows: TimelineTab },
  { path: "events", title: "Events", shows: EventsTab },
  { path: "logs", title: "Logs", shows: LogsTab },
  { path: "messages", title: "Messages", shows: MessagesTab },
  { path: "journal", title: "Journal", shows: JournalTab },
  { path: "plans", title: "Plans", shows: PlansTab },
  { path: "result", title: "Result", shows: ResultTab },
  { path: "signals", title: "Signals", shows: SignalsTab },
];

/** Of runs with a parent or children. */
const TREE = { path: "tree", title: "Tree", shows: TreeTab };

/** A failed run opens on it. */
const REASON = { path: "reason", title: "Why it failed", shows: ReasonTab };

export function RunPage({ runId, tab }: { runId: string; tab: string }) {
  const store = useMemo(() => new RunStore(runId), [runId]);
  useEffect(() => store.start(), [store]);
  useChanges(store);
  const view = store.view;
  useTitle(view ? runTitle(view.run) : "");
  if (store.deleted) return <Empty>This run has been deleted.</Empty>;
  if (!view && store.problem?.reason === "RUN_NOT_FOUND") return <Shortened runId={runId} />;
  if (!view) return store.problem ? <Problems of={store.problem} /> : <Empty>Reading the run …</Empty>;
  return <Run store={store} tab={tab || (view.run.status === RunStatus.FAILED ? "reason" : "graph")} />;
}

/** Looks for the run whose id begins as the address says. */
function Shortened({ runId }: { runId: string }) {
  const [found, setFound] = useState<number>();
  useEffect(() => {
    api.listRuns({ runIdPrefix: runId, pageSize: 2 }).then(
      ({ runs }) => {
        const [only] = runs;
        const [, , tab] = location.pathname.slice(BASE.length).split("/").filter(Boolean);
        if (runs.length === 1 && only) navigate(runPath(only.spec!.runId, tab) + location.search, true);
        else setFound(runs.length);
      },
      () => setFound(0),
    );
  }, [runId]);
  if (found === undefined) return <Empty>Looking …</Empty>;
  if (!found) return <Empty>There is no run {runId}.</Empty>;
  return (
    <Empty>
      More than one run begins with {runId}: <a href={`/runs?q=${encodeURIComponent(`id:${runId}`)}`}>see them</a>
    </Empty>
  );
}

function Run({ store, tab }: { store: RunStore; tab: string }) {
  const { query } = useRoute();
  const taskId = query.get("task") ?? "";
  const step = query.get("step") ?? "";
  const panel = FILTERED.includes(tab) ? undefined : taskId ? (
    <TaskPanel key={taskId} store={store} taskId={taskId} />
  ) : step ? (
    <StepPanel key={step} store={store} step={step} />
  ) : undefined;
  const go = (path: string) => navigate(runPath(store.runId, path, taskId ? { task: taskId } : {}));
  useKeys({
    ...Object.fromEntries(TABS.map((one, index) => [String(index + 1), () => go(one.path)])),
    Escape: () => setQuery({ task: "", step: "", group: "" }),
  });
  const { run } = store.view!;
  const all = [...(run.status === RunStatus.FAILED ? [REASON] : []), ...TABS, ...(isInTree(run) ? [TREE] : [])];
  const shown = all.find((one) => one.path === tab);
  const tabs = useRef<HTMLElement>(null);
  // Where the tabs don't all fit, the one that is shown does.
  useEffect(() => tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [tab]);
  return (
    <div class="page run">
      <Header store={store} />
      {store.problem && <Problems of={store.problem} />}
      <nav class="tabs" aria-label="Views of the run" ref={tabs}>
        {all.map((one) => (
          <a
            key={one.path}
            href={runPath(store.runId, one.path, taskId ? { task: taskId } : {})}
            aria-current={one.path === tab ? "page" : undefined}
          >
            {one.title}
          </a>
        ))}
      </nav>
      <div class={`work ${panel ? "with-panel" : ""}`}>
        <section class="tab">
          {shown ? <shown.shows store={store} taskId={taskId} /> : <Empty>There is no such view.</Empty>}
        </section>
        {panel}
      </div>
    </div>
  );
}
