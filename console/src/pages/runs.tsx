// The list of runs, live, with filters and a search.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api } from "../api/client.ts";
import { prompts } from "../api/badge.ts";
import { RunList } from "../api/runs.ts";
import { BlockedKind, type Run, RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { cellOf, type Column } from "../model/columns.ts";
import { maybeId, search } from "../model/query.ts";
import { visible } from "../model/strange.ts";
import { firstLine, ms, number, shortId } from "../model/text.ts";
import { blocked, failureLine, runName, runTitle, taskCounts } from "../model/words.ts";
import { useKeys } from "../ui/keyboard.ts";
import { Empty, Meter, Problems, StatusPill, Time, useNow, useTitle } from "../ui/parts.tsx";
import { navigate, runPath, useRoute } from "../ui/router.ts";
import { useChanges, useValue } from "../ui/store.ts";
import { VirtualList } from "../ui/virtual.tsx";
import { CAUSES, columns, Filters, STATUSES } from "./filters.tsx";

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
      <Filters text={text} pipeline={pipeline} statuses={statuses} causes={causes} list={list} />
      {list ? <Rows list={list} /> : <Empty>Looking …</Empty>}
    </div>
  );
}

function Rows({ list }: { list: RunList }) {
  useChanges(list);
  const [chosen, setChosen] = useState("");
  const extra = useValue(columns);
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
    <div class="list" style={{ "--extra": extra.map(() => "minmax(80px, 1fr)").join(" ") || " " }}>
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
      {extra.length > 0 && runs.length > 0 && (
        <div class="run-row heads" aria-hidden="true">
          {["status", "run", "tasks", "why", ...extra, "created"].map((one) => (
            <small key={one} class={(extra as string[]).includes(one) ? "extra" : one === "created" ? "when" : ""}>
              {one}
            </small>
          ))}
        </div>
      )}
      {runs.length === 0 ? (
        <NoRuns list={list} />
      ) : (
        <VirtualList
          label="Runs"
          count={runs.length}
          rowHeight={ROW_PX}
          keyOf={(at) => runs[at]!.spec!.runId}
          row={(at) => <Row run={runs[at]!} chosen={at === index} extra={extra} />}
          more={() => void list.more()}
          reveal={index}
        />
      )}
    </div>
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

function Row({ run, chosen, extra }: { run: Run; chosen: boolean; extra: Column[] }) {
  const spec = run.spec!;
  const counts = run.counts;
  const total = counts?.total ?? 0;
  const shown = (column: Column, text: string) => (extra.includes(column) ? "" : text);
  const labels = Object.entries(spec.labels)
    .filter(([key]) => !key.startsWith("stepwell."))
    .map(([key, value]) => `${key}=${value}`);
  const child = spec.childOf ? `child of ${shortId(spec.childOf.runId)}` : "";
  const about = [runName(run), child, shown("pipeline", spec.pipelineId), shown("labels", labels.join(" · "))];
  return (
    <a href={runPath(spec.runId)} class={`run-row ${chosen ? "chosen" : ""}`}>
      <span class="state">
        <StatusPill status={run.status} />
      </span>
      <span class="title">
        <b>{runTitle(run)}</b>
        <small>{visible(about.filter(Boolean).join(" · "))}</small>
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
      <Why run={run} />
      {extra.map((one) => (
        <Cell key={one} run={run} column={one} />
      ))}
      <span class="when">
        <Time at={ms(run.createdTime)} />
        <small>{!extra.includes("duration") && <Took run={run} />}</small>
      </span>
    </a>
  );
}

/** Why a run failed, what it asks, or what it waits for. */
function Why({ run }: { run: Run }) {
  const asked = useValue(prompts).get(run.spec!.runId);
  if (run.status === RunStatus.FAILED) {
    return (
      <span class="waits failed">
        <span class="clip">{failureLine(run.failure) || "failed"}</span>
      </span>
    );
  }
  const waits = run.blockedOn === BlockedKind.QUESTION && asked ? `asks: ${firstLine(asked)}` : blocked(run);
  return (
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
  );
}

function Cell({ run, column }: { run: Run; column: Column }) {
  const current = useNow();
  const text = cellOf(run, column, current);
  return (
    <span class="extra">
      <span class="clip" title={text}>
        {text || "–"}
      </span>
    </span>
  );
}

function Took({ run }: { run: Run }) {
  const current = useNow();
  return <>{cellOf(run, "duration", current)}</>;
}
