// The list of runs, live, with filters and a search.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api/client.ts";
import { RunList } from "../api/runs.ts";
import { BlockedKind, type Run, RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { maybeId, search } from "../model/query.ts";
import { visible } from "../model/strange.ts";
import { ms, number, span, word } from "../model/text.ts";
import { blocked, isEnded, runName, runTitle, taskCounts, took } from "../model/words.ts";
import { useKeys } from "../ui/keyboard.ts";
import { Empty, Meter, Problems, StatusPill, Time, useNow, useTitle } from "../ui/parts.tsx";
import { navigate, runPath, setQuery, useRoute } from "../ui/router.ts";
import { useChanges } from "../ui/store.ts";
import { VirtualList } from "../ui/virtual.tsx";

const STATUSES = [
  RunStatus.QUEUED,
  RunStatus.RUNNING,
  RunStatus.WAITING,
  RunStatus.PAUSED,
  RunStatus.SUCCEEDED,
  RunStatus.FAILED,
  RunStatus.CANCELLED,
];

const CAUSES = [
  BlockedKind.WORKER,
  BlockedKind.CAPACITY,
  BlockedKind.QUESTION,
  BlockedKind.BUDGET,
  BlockedKind.TIMER,
  BlockedKind.PAUSED,
  BlockedKind.UNKNOWN_OUTCOME,
  BlockedKind.KEY,
];

const ROW_PX = 60;

/** Reads a list of an enum's names out of the address. */
function values<T extends number>(text: string, all: readonly T[], names: Record<number, string>) {
  return text.split(",").flatMap((name) => all.filter((one) => names[one] === name));
}

export function RunsPage() {
  const { query } = useRoute();
  const text = query.get("q") ?? "";
  const pipeline = query.get("pipeline") ?? "";
  const statuses = query.get("status") ?? "";
  const causes = query.get("blocked") ?? "";
  const found = useMemo(() => search(text), [text]);
  const id = maybeId(found);
  // One word is an id if a run's id begins with it, and else a word of goals.
  const [isId, setIsId] = useState<string>();
  useEffect(() => {
    if (!id) return;
    let wanted = true;
    api.listRuns({ runIdPrefix: id, pageSize: 1 }).then(
      (page) => wanted && setIsId(page.runs.length ? id : ""),
      () => wanted && setIsId(""),
    );
    return () => {
      wanted = false;
    };
  }, [id]);
  const pending = id !== "" && isId === undefined;
  const byId = id !== "" && isId === id;
  const list = useMemo(() => {
    if (pending) return undefined;
    return new RunList({
      statuses: values(statuses, STATUSES, RunStatus),
      blockedOn: values(causes, CAUSES, BlockedKind),
      pipelineId: pipeline,
      labels: found.labels,
      prefix: byId ? id : found.prefix,
      words: byId ? [] : found.words,
    });
  }, [text, pipeline, statuses, causes, pending, byId]);
  useEffect(() => list?.start(), [list]);
  useTitle("Runs");
  return (
    <div class="page runs">
      <h1 class="hidden">Runs</h1>
      <Filters text={text} pipeline={pipeline} statuses={statuses} causes={causes} />
      {list ? <Rows list={list} /> : <Empty>Looking …</Empty>}
    </div>
  );
}

function Filters(props: { text: string; pipeline: string; statuses: string; causes: string }) {
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  const typed = useRef<Record<string, string>>({});
  // What is typed at last must not reach the address of another page.
  useEffect(() => () => clearTimeout(timer.current), []);
  useKeys({ "/": () => field.current?.focus() });
  const chosen = new Set(props.statuses.split(",").filter(Boolean));
  const toggle = (name: string) => {
    if (!chosen.delete(name)) chosen.add(name);
    setQuery({ status: [...chosen].join(",") });
  };
  const later = (changes: Record<string, string>) => {
    Object.assign(typed.current, changes);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setQuery(typed.current);
      typed.current = {};
    }, 250) as unknown as number;
  };
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <input
        ref={field}
        type="search"
        aria-label="Search runs"
        placeholder="Search: id, words of the goal, label=value    ( / )"
        defaultValue={props.text}
        onInput={(event) => later({ q: event.currentTarget.value })}
      />
      <div class="chips" role="group" aria-label="Status">
        {STATUSES.map((one) => {
          const name = RunStatus[one];
          return (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={chosen.has(name)}
              onClick={() => toggle(name)}
            >
              <i class={`dot run-${word(RunStatus, one)}`} /> {word(RunStatus, one)}
            </button>
          );
        })}
      </div>
      <select
        aria-label="Waits for"
        value={props.causes}
        onChange={(event) => setQuery({ blocked: event.currentTarget.value })}
      >
        <option value="">waits for: anything</option>
        {CAUSES.map((one) => (
          <option key={one} value={BlockedKind[one]}>
            waits for: {word(BlockedKind, one)}
          </option>
        ))}
      </select>
      <input
        class="pipeline"
        aria-label="Pipeline"
        placeholder="Pipeline"
        defaultValue={props.pipeline}
        onInput={(event) => later({ pipeline: event.currentTarget.value.trim() })}
      />
    </form>
  );
}

function Rows({ list }: { list: RunList }) {
  useChanges(list);
  const [chosen, setChosen] = useState("");
  const { runs, filter } = list;
  const index = runs.findIndex((one) => one.spec!.runId === chosen);
  const move = (step: number) => {
    const next = runs[Math.max(0, Math.min(runs.length - 1, index + step))];
    if (next) setChosen(next.spec!.runId);
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => chosen && navigate(runPath(chosen)),
    Escape: () => setChosen(""),
  });
  if (list.problem && !runs.length) return <Problems of={list.problem} />;
  if (!list.ready) return <Empty>Reading the runs …</Empty>;
  const searching = filter.words.length > 0;
  return (
    <>
      <p class="quiet looked" role="status">
        {number(runs.length)} {runs.length === 1 ? "run" : "runs"}
        {!list.complete && !searching && ", more below"}
        {searching && `, of ${number(list.looked)} whose goals were looked at`}
        {searching && !list.complete && !list.busy && (
          <>
            {" "}
            <button type="button" class="small" onClick={() => void list.more(true)}>
              Look further back
            </button>
          </>
        )}
        {list.busy && " …"}
      </p>
      {runs.length === 0 ? (
        <NoRuns list={list} />
      ) : (
        <VirtualList
          label="Runs"
          count={runs.length}
          rowHeight={ROW_PX}
          keyOf={(at) => runs[at]!.spec!.runId}
          row={(at) => <Row run={runs[at]!} chosen={at === index} />}
          more={() => void list.more()}
          reveal={index}
        />
      )}
    </>
  );
}

function NoRuns({ list }: { list: RunList }) {
  const { statuses, blockedOn, pipelineId, labels, prefix, words } = list.filter;
  const filtered =
    statuses.length || blockedOn.length || pipelineId || Object.keys(labels).length || prefix || words.length;
  if (list.busy) return <Empty>Looking …</Empty>;
  if (filtered) return <Empty>No run matches.</Empty>;
  return (
    <Empty>
      There is no run yet. <a href="/start">Start one</a>, or by the command line: <code>stepwell run --help</code>
    </Empty>
  );
}

function Row({ run, chosen }: { run: Run; chosen: boolean }) {
  const spec = run.spec!;
  const counts = run.counts;
  const total = counts?.total ?? 0;
  const waits = blocked(run);
  const labels = Object.entries(spec.labels).map(([key, value]) => `${key}=${value}`);
  const about = visible([runName(run), spec.pipelineId, ...labels].filter(Boolean).join(" · "));
  return (
    <a href={runPath(spec.runId)} class={`run-row ${chosen ? "chosen" : ""}`}>
      <span class="state">
        <StatusPill status={run.status} />
      </span>
      <span class="title">
        <b>{runTitle(run)}</b>
        <small>{about}</small>
      </span>
      <span class="progress">
        {total > 0 && (
          <Meter
            part={Number(counts!.completed) / total}
            label={taskCounts(run)}
            tone={counts!.failed ? "bad" : ""}
          />
        )}
        <small>{taskCounts(run)}</small>
      </span>
      <span class="waits">
        {waits && (
          <>
            <span class="clip">{waits}</span>
            {run.blockedSinceTime && (
              <small>
                since <Time at={ms(run.blockedSinceTime)} />
              </small>
            )}
          </>
        )}
      </span>
      <span class="when">
        <Time at={ms(run.createdTime)} />
        <small>
          <Took run={run} />
        </small>
      </span>
    </a>
  );
}

function Took({ run }: { run: Run }) {
  const current = useNow();
  if (!run.startedTime && !isEnded(run)) return null;
  return <>{span(took(run, current))}</>;
}
