// A node of the graph: a task, or a group of tasks that are folded together.
import { type Task, TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { HEIGHT, WIDTH } from "../graph/layout.ts";
import type { GraphNode } from "../graph/plan.ts";
import type { RunView } from "../model/runView.ts";
import { ms, number, span, word } from "../model/text.ts";
import { taskSign, taskWord } from "../model/words.ts";
import { runPath } from "../ui/router.ts";

/** How long a task has taken so far. */
export function taskTime(task: Task | undefined, now: number): number {
  const began = ms(task?.startedTime);
  return began ? (ms(task?.endedTime) || now) - began : 0;
}

export interface NodeProps {
  node: GraphNode;
  view: RunView;
  x: number;
  y: number;
  now: number;
  critical: boolean;
  chosen: boolean;
  /** Whether the plan's revision is told, because the run has had several. */
  revised: boolean;
}

export function Node(props: NodeProps) {
  const { node, view, x, y, critical, chosen } = props;
  const extra = `${critical ? " critical" : ""}${chosen ? " chosen" : ""}`;
  if (node.tasks.length > 1) return <Group {...props} extra={extra} />;
  const [id = ""] = node.tasks;
  const task = view.tasks.get(id);
  const spec = view.specs.get(id);
  const status = task?.status ?? TaskStatus.PENDING;
  const state = taskWord(status, task, view);
  const time = taskTime(task, props.now);
  const attempts = task?.attempts ?? 0;
  const facts = [
    state,
    time ? span(time) : "",
    attempts > 1 ? `×${attempts}` : "",
    task?.resultRunId ? "kept" : "",
  ];
  const plan = props.revised && task ? `plan ${task.revision}` : "";
  const below = facts.filter(Boolean).join(" · ");
  const title = spec?.title || id;
  const shown = [taskSign(status), cut(title, 22), cut(below, plan ? 18 : 27), plan];
  // The name begins with what is seen, so that a person who speaks to the browser can say it.
  const name = [...shown.filter(Boolean), ...(shown[1] === title ? [] : [title])].join(" ");
  return (
    <a href={`?task=${encodeURIComponent(id)}`} aria-label={name} data-node={node.id}>
      <title>{`${title}\n${below}`}</title>
      <g class={`node task-${word(TaskStatus, status)}${extra}`} transform={`translate(${x},${y})`}>
        <rect width={WIDTH} height={HEIGHT} rx="8" />
        <text class="sign" x="11" y="19">
          {shown[0]}
        </text>{" "}
        <text x="28" y="19">
          {shown[1]}
        </text>{" "}
        <text class="below" x="28" y="36">
          {shown[2]}
        </text>{" "}
        {plan && (
          <text class="below" x={WIDTH - 10} y="36" text-anchor="end">
            {plan}
          </text>
        )}
      </g>
    </a>
  );
}

function Group({ node, view, x, y, extra }: NodeProps & { extra: string }) {
  const counts = statusCounts(node, view);
  const title = `${number(node.tasks.length)} × ${node.type || "tasks"}`;
  const says = counts.map(([status, part]) => `${number(part)} ${word(TaskStatus, status)}`).join(", ");
  return (
    <a
      href={runPath(view.run.spec!.runId, "tasks", { group: node.id })}
      aria-label={`${cut(title, 24)}: ${says}`}
      data-node={node.id}
    >
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
