// Steps and their attempts as bars over time.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunStore } from "../api/runStore.ts";
import { stepOf, tickText, ticks, type Window, within, zoomed } from "../model/axis.ts";
import { bounds, isOpen, rows } from "../model/bars.ts";
import { count, moment, ms, span } from "../model/text.ts";
import { isEnded } from "../model/words.ts";
import { useKeys } from "../ui/keyboard.ts";
import { absoluteTimes, Empty, useNow } from "../ui/parts.tsx";
import { useSize } from "../ui/size.ts";
import { useValue } from "../ui/store.ts";
import { VirtualList } from "../ui/virtual.tsx";
import { Hint, type Hinted, TimeRow } from "./timeRow.tsx";
import { TimeMap } from "./timeMap.tsx";

const ZOOM = 1.6;
const MARK_WIDTH = 84;
/** More rows than these, and a window that is zoomed, have a map. */
const ROWS_WITHOUT_MAP = 30;
/** In a window shorter than a minute, bars of the present grow in smaller steps. */
const SHORT_MS = 60_000;
const STEP_MS = 250;

export function TimelineTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  const [chosen, setChosen] = useState<Window & { live: boolean }>();
  const [hint, setHint] = useState<Hinted>();
  const [frame, setFrame] = useState<HTMLDivElement | null>(null);
  const [axis, setAxis] = useState<HTMLDivElement | null>(null);
  const { width } = useSize(axis);
  useEffect(() => {
    if (store.listed) void store.listExecutions();
  }, [store.listed]);
  const all = useMemo(() => {
    const over = (id: string) => (id && ms(view.tasks.get(id)?.endedTime)) || ms(view.run.endedTime);
    return rows(view.executions.values(), over);
  }, [view, store.changes]);
  const open = !isEnded(view.run) && all.some(isOpen);
  const now = usePresent(open, chosen);
  const [from, to] = bounds(all, now);
  const whole = { from, to };
  const shown = chosen ? within(chosen.live ? { from: chosen.from + to - chosen.to, to } : chosen, whole) : whole;
  const show = (next: Window | undefined) => setChosen(next && { ...next, live: open && next.to >= to });
  const zoom = (factor: number, place = 0.5) => show(zoomed(shown, whole, factor, place));
  const move = (part: number) => {
    const by = part * (shown.to - shown.from);
    if (chosen) show(within({ from: shown.from + by, to: shown.to + by }, whole));
  };
  useKeys({
    "+": () => zoom(1 / ZOOM),
    "-": () => zoom(ZOOM),
    "0": () => show(undefined),
    ArrowLeft: () => move(-0.25),
    ArrowRight: () => move(0.25),
  });
  useWheel(frame, axis, zoom, move);
  if (!store.executionsListed) return <Empty>Reading the attempts …</Empty>;
  if (!all.length) return <Empty>No step has been offered yet.</Empty>;
  const step = stepOf(shown.to - shown.from, Math.max(1, width / MARK_WIDTH));
  const index = all.findIndex((one) => one.taskId !== "" && one.taskId === taskId);
  return (
    <>
      <div class="row tools">
        <button type="button" class="small" aria-label="Zoom in" onClick={() => zoom(1 / ZOOM)}>
          +
        </button>
        <button type="button" class="small" aria-label="Zoom out" disabled={!chosen} onClick={() => zoom(ZOOM)}>
          −
        </button>
        <button type="button" class="small" aria-label="Earlier" disabled={!chosen} onClick={() => move(-0.5)}>
          ←
        </button>
        <button type="button" class="small" aria-label="Later" disabled={!chosen} onClick={() => move(0.5)}>
          →
        </button>
        <button type="button" class="small" disabled={!chosen} onClick={() => show(undefined)}>
          All
        </button>
        <small>
          {count(all.length, "step")}, {span(shown.to - shown.from)} from {moment(shown.from)}
        </small>
        <Legend />
      </div>
      {(chosen || all.length > ROWS_WITHOUT_MAP) && (
        <TimeMap all={all} whole={whole} shown={shown} now={now} changes={store.changes} show={show} />
      )}
      <div class="time-frame" ref={setFrame} onPointerLeave={() => setHint(undefined)}>
        <VirtualList
          label="Timeline"
          class="fill timeline"
          count={all.length}
          rowHeight={28}
          reveal={index}
          keyOf={(at) => all[at]!.id}
          head={
            <div class="axis" aria-hidden="true">
              <div ref={setAxis}>
                <Marks shown={shown} start={from} step={step} width={width} />
              </div>
            </div>
          }
          row={(at) => (
            <TimeRow
              row={all[at]!}
              view={view}
              window={shown}
              start={from}
              step={step}
              width={width}
              now={open ? now : 0}
              end={to}
              chosen={at === index}
              hint={setHint}
            />
          )}
        />
      </div>
      {hint && <Hint {...hint} />}
    </>
  );
}

/** The present moment: each second, and more often while a short window has bars that grow. */
function usePresent(open: boolean, chosen: Window | undefined): number {
  const slow = useNow();
  const [, again] = useState({});
  const length = useRef(0);
  const started = useRef(Date.now());
  length.current = chosen ? chosen.to - chosen.from : Date.now() - started.current;
  useEffect(() => {
    if (!open) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible" && length.current < SHORT_MS) again({});
    }, STEP_MS);
    return () => clearInterval(timer);
  }, [open]);
  return open ? Date.now() : slow;
}

/** Zooms by the wheel with Ctrl, around the pointer, and moves by it with Shift or sideways. */
function useWheel(
  frame: HTMLElement | null,
  axis: HTMLElement | null,
  zoom: (factor: number, place: number) => void,
  move: (part: number) => void,
): void {
  const latest = useRef({ zoom, move });
  latest.current = { zoom, move };
  useEffect(() => {
    if (!frame || !axis) return;
    const wheel = (event: WheelEvent) => {
      const sideways = event.deltaX || (event.shiftKey ? event.deltaY : 0);
      const { left, width } = axis.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) {
        const place = Math.min(1, Math.max(0, (event.clientX - left) / width));
        latest.current.zoom(Math.exp(event.deltaY / 300), place);
      } else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        latest.current.move(sideways / width);
      } else return;
      event.preventDefault();
    };
    frame.addEventListener("wheel", wheel, { passive: false });
    return () => frame.removeEventListener("wheel", wheel);
  }, [frame, axis]);
}

function Legend() {
  return (
    <small class="legend">
      <i class="wait" /> waits for a worker <i class="wait back-off" /> back-off <i class="task-running" /> runs <i class="task-completed" /> done{" "}
      <i class="task-failed" /> failed or lost <i class="rest" /> asks or sleeps <i class="task-pending" /> handed back or cancelled
    </small>
  );
}

interface MarksProps {
  shown: Window;
  start: number;
  step: number;
  width: number;
}

function Marks({ shown, start, step, width }: MarksProps) {
  const absolute = useValue(absoluteTimes);
  return (
    <>
      {ticks(shown, start, step).map((at) => {
        const left = (width * (at - shown.from)) / (shown.to - shown.from);
        if (left > width - MARK_WIDTH + 20) return null;
        const clock = moment(at).slice(step < 86_400_000 ? 11 : 0, step < 86_400_000 ? undefined : 10);
        return (
          <span key={at} style={{ left: `${left}px` }}>
            {absolute ? clock : `+${tickText(at - start, step)}`}
          </span>
        );
      })}
    </>
  );
}
