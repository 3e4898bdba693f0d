// The plan as a graph, live.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunStore } from "../api/runStore.ts";
import { type Task, TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import type { Layout, LayoutRequest, Point } from "../graph/layout.ts";
import { criticalPath, fold, type Graph, type GraphNode, type GraphTask, NODES_MAX } from "../graph/plan.ts";
import type { RunView } from "../model/runView.ts";
import { count, ms, number, span, word } from "../model/text.ts";
import { taskSign } from "../model/words.ts";
import { Empty, useNow } from "../ui/parts.tsx";
import { runPath } from "../ui/router.ts";

declare const WORKER_FILE: string;

const WIDTH = 196;
const HEIGHT = 46;

/** The tasks of a run as the graph needs them. */
export function graphTasks(view: RunView): GraphTask[] {
  return [...view.specs.values()].map((one) => ({
    id: one.taskId,
    type: one.type,
    dependsOn: one.dependsOn,
  }));
}

/** How long a task has taken so far. */
export function taskTime(task: Task | undefined, now: number): number {
  const began = ms(task?.startedTime);
  return began ? (ms(task?.endedTime) || now) - began : 0;
}

let worker: Worker | undefined;
let requests = 0;

/** Lays a graph out in the worker; the layout of an earlier graph is dropped. */
function useLayout(graph: Graph): Layout | undefined {
  const [layout, setLayout] = useState<Layout>();
  // It loads while the tasks are read.
  worker ??= new Worker(`/assets/${WORKER_FILE}`, { type: "module" });
  useEffect(() => {
    if (!graph.nodes.length) return;
    const id = ++requests;
    const take = (event: MessageEvent<Layout>) => event.data.id === id && setLayout(event.data);
    worker?.addEventListener("message", take);
    const nodes = graph.nodes.map((one) => ({ id: one.id, width: WIDTH, height: HEIGHT }));
    worker?.postMessage({ id, nodes, edges: graph.edges } satisfies LayoutRequest);
    return () => worker?.removeEventListener("message", take);
  }, [graph]);
  return layout;
}

export function GraphTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  // A long plan comes in pages; it is drawn once, when all of it is there.
  const tasks = useMemo(() => (store.listed ? graphTasks(view) : []), [view, view.plans, store.listed]);
  const graph = useMemo(() => fold(tasks), [tasks]);
  const layout = useLayout(graph);
  const [critical, setCritical] = useState(false);
  const [zoom, setZoom] = useState(1);
  const current = useNow();
  const slow = Math.floor(current / 2_000);
  const path = useMemo(
    () => (critical ? criticalPath(tasks, (id) => taskTime(view.tasks.get(id), current)) : new Set<string>()),
    [critical, tasks, slow],
  );
  const box = useRef<HTMLDivElement>(null);
  useDragging(box);
  if (!store.listed) return <Empty>Reading {number(view.tasks.size)} tasks …</Empty>;
  if (!tasks.length) return <Empty>There is no plan yet.</Empty>;
  return (
    <>
      <div class="row tools">
        <button type="button" class="small" aria-label="Smaller" onClick={() => setZoom(Math.max(0.3, zoom / 1.25))}>
          −
        </button>
        <button type="button" class="small" aria-label="Larger" onClick={() => setZoom(Math.min(2, zoom * 1.25))}>
          +
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
            {number(tasks.length)} tasks, folded into {number(graph.nodes.length)} groups by layer and type: above{" "}
            {NODES_MAX} a graph can't be read
          </small>
        )}
      </div>
      <div class="graph" ref={box} tabIndex={0} role="region" aria-label="Graph of the plan">
        {layout && (
          <svg
            width={layout.width * zoom}
            height={layout.height * zoom}
            viewBox={`0 0 ${layout.width} ${layout.height}`}
            role="group"
            aria-label={`${number(tasks.length)} tasks`}
          >
            <Edges layout={layout} graph={graph} path={path} />
            {graph.nodes.map((node) => {
              const at = layout.nodes[node.id];
              return (
                at && (
                  <Node
                    key={node.id}
                    node={node}
                    view={view}
                    x={at.x - WIDTH / 2}
                    y={at.y - HEIGHT / 2}
                    now={current}
                    critical={node.tasks.some((one) => path.has(one))}
                    chosen={node.tasks.length === 1 && node.tasks[0] === taskId}
                  />
                )
              );
            })}
          </svg>
        )}
      </div>
    </>
  );
}

function sum(path: Set<string>, view: RunView, now: number): number {
  let total = 0;
  for (const id of path) total += taskTime(view.tasks.get(id), now);
  return total;
}

function Edges({ layout, graph, path }: { layout: Layout; graph: Graph; path: Set<string> }) {
  const critical = useMemo(
    () => new Set(graph.nodes.filter((one) => one.tasks.some((id) => path.has(id))).map((one) => one.id)),
    [graph, path],
  );
  return (
    <g class="edges">
      {layout.edges.map((edge) => (
        <path
          key={JSON.stringify([edge.from, edge.to])}
          class={critical.has(edge.from) && critical.has(edge.to) ? "critical" : ""}
          d={curve(line(edge, layout))}
        />
      ))}
    </g>
  );
}

/** The points of an edge, from the middle of one node's right side to that of another's left side. */
function line({ from, to, points }: Layout["edges"][number], layout: Layout): Point[] {
  const start = layout.nodes[from]!;
  const end = layout.nodes[to]!;
  return [
    { x: start.x + WIDTH / 2, y: start.y },
    // Between neighbouring layers there is one point, and the curve does without it.
    ...(points.length > 3 ? points.slice(1, -1) : []),
    { x: end.x - WIDTH / 2, y: end.y },
  ];
}

/** A smooth line through the points. */
function curve(points: Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let text = `M${first.x},${first.y}`;
  let before = first;
  for (const point of rest) {
    const middle = (before.x + point.x) / 2;
    text += `C${middle},${before.y} ${middle},${point.y} ${point.x},${point.y}`;
    before = point;
  }
  return text;
}

interface NodeProps {
  node: GraphNode;
  view: RunView;
  x: number;
  y: number;
  now: number;
  critical: boolean;
  chosen: boolean;
}

function Node(props: NodeProps) {
  const { node, view, x, y, critical, chosen } = props;
  const [id = ""] = node.tasks;
  const runId = view.run.spec!.runId;
  const extra = `${critical ? " critical" : ""}${chosen ? " chosen" : ""}`;
  if (node.tasks.length > 1) {
    const counts = statusCounts(node, view);
    const title = `${number(node.tasks.length)} × ${node.type || "tasks"}`;
    const says = counts.map(([status, part]) => `${number(part)} ${word(TaskStatus, status)}`).join(", ");
    return (
      <a href={runPath(runId, "tasks", { group: node.id })} aria-label={`${cut(title, 24)}: ${says}`}>
        <title>{says}</title>
        <g class={`node group${extra}`} transform={`translate(${x},${y})`}>
          <rect width={WIDTH} height={HEIGHT} rx="8" />
          <text x="10" y="19">
            {cut(title, 24)}
          </text>
          <Shares counts={counts} total={node.tasks.length} />
        </g>
      </a>
    );
  }
  const task = view.tasks.get(id);
  const spec = view.specs.get(id);
  const status = task?.status ?? TaskStatus.PENDING;
  const state = word(TaskStatus, status);
  const time = taskTime(task, props.now);
  const attempts = task?.attempts ?? 0;
  const below = [state, time ? span(time) : "", attempts > 1 ? `×${attempts}` : ""].filter(Boolean).join(" · ");
  const title = spec?.title || id;
  const shown = [taskSign(status), cut(title, 22), cut(below, 27)];
  // The name begins with what is seen, so that a person who speaks to the browser can say it.
  const name = [...shown, ...(shown[1] === title ? [] : [title])].join(" ");
  return (
    <a href={`?task=${encodeURIComponent(id)}`} aria-label={name}>
      <title>{`${title}\n${below}`}</title>
      <g class={`node task-${state}${extra}`} transform={`translate(${x},${y})`}>
        <rect width={WIDTH} height={HEIGHT} rx="8" />
        <text class="sign" x="11" y="19">
          {shown[0]}
        </text>{" "}
        <text x="28" y="19">
          {shown[1]}
        </text>{" "}
        <text class="below" x="28" y="36">
          {shown[2]}
        </text>
      </g>
    </a>
  );
}

function cut(text: string, charsMax: number): string {
  const chars = [...text];
  return chars.length > charsMax ? `${chars.slice(0, charsMax - 1).join("")}…` : text;
}

function statusCounts(node: GraphNode, view: RunView): [TaskStatus, number][] {
  const counts = new Map<TaskStatus, number>();
  for (const id of node.tasks) {
    const status = view.tasks.get(id)?.status ?? TaskStatus.PENDING;
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return [...counts].sort(([a], [b]) => b - a);
}

/** A bar whose parts say how many of a group stand where. */
function Shares({ counts, total }: { counts: [TaskStatus, number][]; total: number }) {
  let at = 10;
  return (
    <>
      {counts.map(([status, part]) => {
        const width = ((WIDTH - 20) * part) / total;
        const x = at;
        at += width;
        return (
          <rect key={status} class={`share task-${word(TaskStatus, status)}`} x={x} y="29" width={width} height="7" />
        );
      })}
    </>
  );
}

/** Lets the ground be dragged, where the mouse is no finger. */
function useDragging(box: { current: HTMLDivElement | null }): void {
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let from: { x: number; y: number } | undefined;
    const down = (event: PointerEvent) => {
      if (event.pointerType !== "mouse" || (event.target as Element).closest("a")) return;
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
  });
}
