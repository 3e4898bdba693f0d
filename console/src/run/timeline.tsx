// Steps and their attempts as bars over time.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { RunStore } from "../api/runStore.ts";
import { ExecutionStatus } from "../gen/stepwell/v1/types_pb.ts";
import { type Bar, bounds, type Row, rows, ticks } from "../model/bars.ts";
import { count, moment, span, word } from "../model/text.ts";
import { isEnded } from "../model/words.ts";
import { Empty, useNow } from "../ui/parts.tsx";
import { setQuery } from "../ui/router.ts";
import { VirtualList } from "../ui/virtual.tsx";

interface Window {
  from: number;
  to: number;
}

const ZOOM = 1.6;

export function TimelineTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  const [zoomed, setZoomed] = useState<Window>();
  const tick = useNow();
  useEffect(() => {
    if (store.listed) void store.listExecutions();
  }, [store.listed]);
  const all = useMemo(() => rows(view.executions.values()), [view, store.changes]);
  if (!store.executionsListed) return <Empty>Reading the attempts …</Empty>;
  if (!all.length) return <Empty>No step has been offered yet.</Empty>;
  const [from, to] = bounds(all, isEnded(view.run) ? 0 : tick);
  const shown = zoomed ?? { from, to };
  const zoom = (factor: number) => {
    const middle = (shown.from + shown.to) / 2;
    const half = ((shown.to - shown.from) / 2) * factor;
    const next = { from: Math.max(from, middle - half), to: Math.min(to, middle + half) };
    setZoomed(next.from <= from && next.to >= to ? undefined : next);
  };
  const move = (part: number) => {
    const length = shown.to - shown.from;
    const start = Math.min(Math.max(from, shown.from + part * length), to - length);
    setZoomed({ from: start, to: start + length });
  };
  const index = all.findIndex((one) => one.taskId !== "" && one.taskId === taskId);
  return (
    <>
      <div class="row tools">
        <button type="button" class="small" aria-label="Zoom in" onClick={() => zoom(1 / ZOOM)}>
          +
        </button>
        <button type="button" class="small" aria-label="Zoom out" disabled={!zoomed} onClick={() => zoom(ZOOM)}>
          −
        </button>
        <button type="button" class="small" aria-label="Earlier" disabled={!zoomed} onClick={() => move(-0.5)}>
          ←
        </button>
        <button type="button" class="small" aria-label="Later" disabled={!zoomed} onClick={() => move(0.5)}>
          →
        </button>
        <button type="button" class="small" disabled={!zoomed} onClick={() => setZoomed(undefined)}>
          All
        </button>
        <small>
          {count(all.length, "step")}, {span(shown.to - shown.from)} from {moment(shown.from)}
        </small>
        <Legend />
      </div>
      <Axis window={shown} start={from} />
      <VirtualList
        label="Timeline"
        class="fill timeline"
        count={all.length}
        rowHeight={28}
        reveal={index}
        keyOf={(at) => all[at]!.id}
        row={(at) => <TimeRow row={all[at]!} window={shown} now={isEnded(view.run) ? to : tick} chosen={at === index} />}
      />
    </>
  );
}

function Legend() {
  return (
    <small class="legend">
      <i class="wait" /> waits <i class="task-running" /> runs <i class="task-completed" /> done{" "}
      <i class="task-failed" /> failed or lost <i class="task-blocked" /> asks or sleeps <i class="task-pending" /> handed back or cancelled
    </small>
  );
}

function Axis({ window: { from, to }, start }: { window: Window; start: number }) {
  const length = to - from;
  const offset = from - start;
  // At 400 pixels there is room for four, and for none beside a mark at the end.
  const marks = ticks(length, 4).filter((at) => at <= 0.8 * length);
  return (
    <div class="axis" aria-hidden="true">
      {marks.map((at) => (
        <span key={at} style={{ left: `${(100 * at) / length}%` }}>
          +{span(offset + at)}
        </span>
      ))}
    </div>
  );
}

function TimeRow(props: { row: Row; window: Window; now: number; chosen: boolean }) {
  const { row, window, now, chosen } = props;
  const open = () => setQuery(row.taskId ? { task: row.taskId, step: "" } : { step: row.id, task: "" });
  return (
    <div class={`time-row ${chosen ? "chosen" : ""}`}>
      <button type="button" class="link" onClick={open}>
        <span class="clip">
          {row.title}
          {row.bars.length > 1 && <small> ×{row.bars.length}</small>}
        </span>
      </button>
      <div class="bars">
        {row.bars.map((bar) => (
          <BarView key={bar.execution.executionId} bar={bar} window={window} now={now} />
        ))}
      </div>
    </div>
  );
}

const TONES: Partial<Record<ExecutionStatus, string>> = {
  [ExecutionStatus.LEASED]: "task-running",
  [ExecutionStatus.COMPLETED]: "task-completed",
  [ExecutionStatus.FAILED]: "task-failed",
  [ExecutionStatus.TIMED_OUT]: "task-failed",
  [ExecutionStatus.LOST]: "task-failed lost",
  [ExecutionStatus.UNKNOWN_OUTCOME]: "task-failed lost",
  [ExecutionStatus.NEEDS_ANSWER]: "task-blocked",
  [ExecutionStatus.SUSPENDED]: "task-blocked",
};

function BarView({ bar, window, now }: { bar: Bar; window: Window; now: number }) {
  const end = bar.ended || now;
  const length = window.to - window.from;
  const place = (from: number, to: number) => {
    const left = Math.max(0, (from - window.from) / length);
    const right = Math.min(1, (to - window.from) / length);
    if (right < 0 || left > 1) return undefined;
    return { left: `${100 * left}%`, width: `max(3px, ${100 * Math.max(0, right - left)}%)` };
  };
  const { execution } = bar;
  const waited = bar.leased ? bar.leased - bar.offered : end - bar.offered;
  const says = [
    `attempt ${execution.attempt}: ${word(ExecutionStatus, bar.status)}`,
    `waited ${span(waited)}`,
    bar.leased ? `took ${span(end - bar.leased)}` : "",
    execution.workerId ? `on ${execution.workerId}` : "",
    execution.failure?.kind ?? "",
  ];
  const title = says.filter(Boolean).join(", ");
  const wait = place(bar.offered, bar.leased || end);
  const work = bar.leased ? place(bar.leased, end) : undefined;
  return (
    <>
      {wait && waited > 0 && <span class="bar wait" style={wait} title={title} />}
      {work && (
        <span class={`bar ${TONES[bar.status] ?? "task-pending"}`} style={work} title={title} role="img" aria-label={title} />
      )}
    </>
  );
}
