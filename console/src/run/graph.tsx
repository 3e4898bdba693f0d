// The plan as a graph, live.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunStore } from "../api/runStore.ts";
import { TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { curve, HEIGHT, type Layout, layOut, neighbour, type Point, WIDTH } from "../graph/layout.ts";
import { criticalPath, fold, type Graph, type GraphTask, NODES_MAX } from "../graph/plan.ts";
import type { RunView } from "../model/runView.ts";
import { count, number, span } from "../model/text.ts";
import { useKeys } from "../ui/keyboard.ts";
import { Empty, useNow } from "../ui/parts.tsx";
import { setQuery } from "../ui/router.ts";
import { useSize } from "../ui/size.ts";
import { GraphMap } from "./graphMap.tsx";
import { Node, taskTime } from "./graphNode.tsx";

const ZOOM = 1.4;
const SCALE_MAX = 2;

/** The tasks of a run as the graph needs them. */
export function graphTasks(view: RunView): GraphTask[] {
  return [...view.specs.values()].map((one) => ({
    id: one.taskId,
    type: one.type,
    dependsOn: one.dependsOn,
  }));
}

export function GraphTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  // A long plan comes in pages; it is drawn once, when all of it is there.
  const tasks = useMemo(() => (store.listed ? graphTasks(view) : []), [view, view.plans, store.listed]);
  const graph = useMemo(() => fold(tasks), [tasks]);
  const layout = useMemo(() => layOut(graph), [graph]);
  const [critical, setCritical] = useState(false);
  const current = useNow();
  const slow = Math.floor(current / 2_000);
  const path = useMemo(
    () => (critical ? criticalPath(tasks, (id) => taskTime(view.tasks.get(id), current)) : new Set<string>()),
    [critical, tasks, slow],
  );
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const { scale, fits, zoom, whole } = useZoom(box, layout, layout.nodes.get(taskId));
  useDragging(box);
  useKeys({ "+": () => zoom(ZOOM), "-": () => zoom(1 / ZOOM), "0": whole });
  if (!store.listed) return <Empty>Reading {number(view.tasks.size)} tasks …</Empty>;
  if (!tasks.length) return <Empty>There is no plan yet.</Empty>;
  const go = (id: string) => {
    const [only, ...others] = graph.nodes.find((one) => one.id === id)!.tasks;
    if (only && !others.length) setQuery({ task: only });
    focus(box, id);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const direction = /^Arrow(Left|Right|Up|Down)$/.exec(event.key)?.[1] as "Left" | undefined;
    const from = (event.target as Element).closest("[data-node]")?.getAttribute("data-node") ?? taskId;
    const to = direction && neighbour(layout, from, direction);
    if (!to) return;
    event.preventDefault();
    // The panel of a task goes along.
    if (taskId) go(to);
    else focus(box, to);
  };
  const revised = new Set([...view.tasks.values()].map((one) => one.revision)).size > 1;
  return (
    <>
      <div class="row tools">
        <button type="button" class="small" aria-label="Smaller" onClick={() => zoom(1 / ZOOM)}>
          −
        </button>
        <button type="button" class="small" aria-label="Larger" onClick={() => zoom(ZOOM)}>
          +
        </button>
        <button type="button" class="small" disabled={fits} onClick={whole}>
          All
        </button>
        <label class="row">
          <input type="checkbox" checked={critical} onChange={(event) => setCritical(event.currentTarget.checked)} />
          Critical path
          {critical && path.size > 0 && (
            <small>
              {count(path.size, "task")}, {span(sum(path, view, current))}
            </small>
          )}
        </label>
        {graph.folded && (
          <small>
            {number(tasks.length)} tasks, folded into {count(graph.nodes.length, "group")} by layer and type: above{" "}
            {NODES_MAX} a graph can't be read
          </small>
        )}
      </div>
      <div class="graph-frame">
        <div class="graph" ref={setBox} tabIndex={0} role="region" aria-label="Graph of the plan" onKeyDown={onKeyDown}>
          {scale > 0 && (
            <svg
              width={layout.width * scale}
              height={layout.height * scale}
              viewBox={`0 0 ${layout.width} ${layout.height}`}
              role="group"
              aria-label={`${number(tasks.length)} tasks`}
            >
              <Edges layout={layout} graph={graph} path={path} view={view} taskId={taskId} go={go} />
              {graph.nodes.map((node) => {
                const at = layout.nodes.get(node.id)!;
                return (
                  <Node
                    key={node.id}
                    node={node}
                    view={view}
                    x={at.x - WIDTH / 2}
                    y={at.y - HEIGHT / 2}
                    now={current}
                    critical={node.tasks.some((one) => path.has(one))}
                    chosen={node.tasks.length === 1 && node.tasks[0] === taskId}
                    revised={revised}
                  />
                );
              })}
            </svg>
          )}
        </div>
        {box && !fits && <GraphMap box={box} layout={layout} graph={graph} view={view} scale={scale} />}
      </div>
    </>
  );
}

/** Gives the keyboard to a node, and brings it into view. */
function focus(box: HTMLElement | null, id: string): void {
  const node = [...(box?.querySelectorAll<SVGElement>("[data-node]") ?? [])].find((one) => one.dataset["node"] === id);
  node?.focus({ preventScroll: true });
  node?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function sum(path: Set<string>, view: RunView, now: number): number {
  let total = 0;
  for (const id of path) total += taskTime(view.tasks.get(id), now);
  return total;
}

interface EdgesProps {
  layout: Layout;
  graph: Graph;
  path: Set<string>;
  view: RunView;
  taskId: string;
  go: (id: string) => void;
}

function Edges({ layout, graph, path, view, taskId, go }: EdgesProps) {
  const lines = useMemo(() => layout.edges.map((one) => ({ ...one, line: curve(one.points) })), [layout]);
  const some = (has: (id: string) => boolean) =>
    new Set(graph.nodes.filter((one) => one.tasks.some(has)).map((one) => one.id));
  const critical = useMemo(() => some((id) => path.has(id)), [graph, path]);
  const running = some((id) => view.tasks.get(id)?.status === TaskStatus.RUNNING);
  const chosen = some((id) => id === taskId);
  return (
    <g class="edges">
      {lines.map(({ from, to, line }) => {
        const tones = [
          critical.has(from) && critical.has(to) && "critical",
          running.has(to) && "running",
          (chosen.has(from) || chosen.has(to)) && "near",
        ];
        return (
          // The keyboard goes along edges by its arrows.
          <g key={JSON.stringify([from, to])} class={tones.filter(Boolean).join(" ")}>
            <path class="line" d={line} />
            <path class="reach" d={line} onClick={() => go(chosen.has(to) ? from : to)}>
              <title>{`${from} → ${to}`}</title>
            </path>
          </g>
        );
      })}
    </g>
  );
}

/** The graph's scale: all of it fits until somebody zooms, also after it has grown. The chosen node stays in the middle. */
function useZoom(box: HTMLDivElement | null, layout: Layout, chosenAt: Point | undefined) {
  const size = useSize(box);
  const [chosen, setChosen] = useState(0);
  // The border of a box that scrolls takes a little.
  const fit = Math.max(0, Math.min(1, (size.width - 2) / layout.width, (size.height - 2) / layout.height));
  const scale = chosen || fit;
  const anchor = useRef<{ x: number; y: number; atX: number; atY: number } | undefined>(undefined);
  const zoom = (factor: number, at?: Point) => {
    if (!box || !fit) return;
    const next = Math.min(SCALE_MAX, Math.max(fit, scale * factor));
    const { x: atX, y: atY } = at ?? { x: size.width / 2, y: size.height / 2 };
    const under = { x: (box.scrollLeft + atX) / scale, y: (box.scrollTop + atY) / scale };
    anchor.current = { ...((!at && chosenAt) || under), atX, atY };
    setChosen(next === fit ? 0 : next);
  };
  const latest = useRef(zoom);
  latest.current = zoom;
  useLayoutEffect(() => {
    const { x, y, atX, atY } = anchor.current ?? {};
    if (box && x !== undefined) box.scrollTo(x * scale - atX!, y! * scale - atY!);
    anchor.current = undefined;
  }, [scale]);
  useEffect(() => {
    if (!box) return;
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, top } = box.getBoundingClientRect();
      latest.current(Math.exp(-event.deltaY / 300), { x: event.clientX - left, y: event.clientY - top });
    };
    box.addEventListener("wheel", wheel, { passive: false });
    return () => box.removeEventListener("wheel", wheel);
  }, [box]);
  return { scale, fits: scale <= fit, zoom, whole: () => setChosen(0) };
}

/** Lets the ground be dragged, where the mouse is no finger. */
function useDragging(element: HTMLDivElement | null): void {
  useEffect(() => {
    if (!element) return;
    let from: { x: number; y: number } | undefined;
    const down = (event: PointerEvent) => {
      if (event.pointerType !== "mouse" || (event.target as Element).closest("a, .reach")) return;
      from = { x: event.clientX + element.scrollLeft, y: event.clientY + element.scrollTop };
    };
    const move = (event: PointerEvent) => {
      if (from) element.scrollTo(from.x - event.clientX, from.y - event.clientY);
    };
    const up = () => {
      from = undefined;
    };
    element.addEventListener("pointerdown", down);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    return () => {
      element.removeEventListener("pointerdown", down);
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
    };
  }, [element]);
}
