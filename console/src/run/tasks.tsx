// The tasks of a run as a list.
import { useMemo, useRef, useState } from "preact/hooks";
import type { RunStore } from "../api/runStore.ts";
import { TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { fold } from "../graph/plan.ts";
import { number, span } from "../model/text.ts";
import { failureLine, taskWord } from "../model/words.ts";
import { useKeys } from "../ui/keyboard.ts";
import { Empty, TaskMark, useNow } from "../ui/parts.tsx";
import { setQuery, useRoute } from "../ui/router.ts";
import { VirtualList } from "../ui/virtual.tsx";
import { graphTasks } from "./graph.tsx";
import { taskTime } from "./graphNode.tsx";

const STATUSES = [
  TaskStatus.RUNNING,
  TaskStatus.READY,
  TaskStatus.BLOCKED,
  TaskStatus.FAILED,
  TaskStatus.PENDING,
  TaskStatus.COMPLETED,
  TaskStatus.SKIPPED,
  TaskStatus.CANCELLED,
];

export function TasksTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  const { query } = useRoute();
  const group = query.get("group") ?? "";
  const status = query.get("status") ?? "";
  const [text, setText] = useState("");
  const current = useNow();
  const inGroup = useMemo(() => {
    if (!group) return undefined;
    const node = fold(graphTasks(view)).nodes.find((one) => one.id === group);
    return new Set(node?.tasks);
  }, [group, view, view.plans]);
  const wanted = text.trim().toLowerCase();
  const shown = useMemo(
    () =>
      [...view.tasks.values()].filter((task) => {
        if (inGroup && !inGroup.has(task.taskId)) return false;
        if (status && TaskStatus[task.status] !== status) return false;
        const title = view.specs.get(task.taskId)?.title ?? "";
        return !wanted || `${task.taskId} ${title}`.toLowerCase().includes(wanted);
      }),
    [store.changes, inGroup, status, wanted],
  );
  const index = shown.findIndex((one) => one.taskId === taskId);
  const move = (step: number) => {
    const next = shown[Math.max(0, Math.min(shown.length - 1, index + step))];
    if (next) setQuery({ task: next.taskId });
  };
  const field = useRef<HTMLInputElement>(null);
  useKeys({ j: () => move(1), k: () => move(-1), "/": () => field.current?.focus() });
  if (!view.tasks.size) return <Empty>{store.listed ? "There is no plan yet." : "Reading the tasks …"}</Empty>;
  return (
    <>
      <div class="row tools">
        <input
          ref={field}
          type="search"
          aria-label="Search tasks"
          placeholder="Id or title"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <select aria-label="Status" value={status} onChange={(event) => setQuery({ status: event.currentTarget.value })}>
          <option value="">any status</option>
          {STATUSES.map((one) => (
            <option key={one} value={TaskStatus[one]}>
              {taskWord(one)}
            </option>
          ))}
        </select>
        {group && (
          <button type="button" class="chip" aria-pressed="true" onClick={() => setQuery({ group: "" })}>
            group {group} ✕
          </button>
        )}
        <small>
          {number(shown.length)} of {number(view.tasks.size)}
        </small>
      </div>
      <VirtualList
        label="Tasks"
        class="fill"
        count={shown.length}
        rowHeight={44}
        reveal={index}
        keyOf={(at) => shown[at]!.taskId}
        row={(at) => {
          const task = shown[at]!;
          const spec = view.specs.get(task.taskId);
          const time = taskTime(task, current);
          const facts = [
            task.attempts > 1 ? `attempt ${number(task.attempts)}` : "",
            task.resultRunId ? "kept" : "",
            task.deduplicatedFrom ? "deduplicated" : "",
            failureLine(task.failure),
          ];
          return (
            <a class={`task-row ${at === index ? "chosen" : ""}`} href={taskHref(task.taskId)}>
              <TaskMark status={task.status} task={task} view={view} />
              <span class="clip">
                <b>{spec?.title || task.taskId}</b> <small>{[spec?.type, spec?.role].filter(Boolean).join(" · ")}</small>
              </span>
              <small class="clip">{facts.filter(Boolean).join(" · ")}</small>
              <small>{time ? span(time) : ""}</small>
            </a>
          );
        }}
      />
    </>
  );
}

/** The address of this view with a task chosen. */
function taskHref(taskId: string): string {
  const query = new URLSearchParams(location.search);
  query.set("task", taskId);
  return `?${query}`;
}
