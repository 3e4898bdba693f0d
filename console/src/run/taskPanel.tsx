// One task in full: what it is, its attempts with their failures, and its result.
import { useState } from "preact/hooks";
import { api, pages } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { Effect, OnFailure, type Task, type TaskSpec, View, WaitKind } from "../gen/stepwell/v1/types_pb.ts";
import { visible } from "../model/strange.ts";
import { count, ms, number, shortId, span, spanMs, word } from "../model/text.ts";
import { Empty, Problems, TaskMark, Time, useLoad, useNow } from "../ui/parts.tsx";
import { PayloadView, TextView } from "../ui/payload.tsx";
import { runPath, setQuery } from "../ui/router.ts";
import { Asked } from "./asked.tsx";
import { Attempt, FailureView } from "./attempt.tsx";
import { taskTime } from "./graphNode.tsx";
import { TaskActions } from "./taskActions.tsx";

/** In a longer plan the definition of one task is looked for when it is asked for. */
const LOOKED_FOR_MAX = 300;

export function TaskPanel({ store, taskId }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  const task = view.tasks.get(taskId);
  const spec = view.specs.get(taskId);
  const current = useNow();
  return (
    <aside class="panel card" aria-label={`Task ${taskId}`}>
      <div class="row">
        <h2>{spec?.title || taskId}</h2>
        <span class="grow" />
        <button type="button" class="small" aria-label="Close" onClick={() => setQuery({ task: "" })}>
          ✕
        </button>
      </div>
      {!task || !spec ? (
        <Empty>{store.listed ? "The run has no such task." : "Reading …"}</Empty>
      ) : (
        <>
          <div class="row">
            <TaskMark status={task.status} task={task} view={view} />
            {taskTime(task, current) > 0 && <small>{span(taskTime(task, current))}</small>}
            <code>{taskId}</code>
          </div>
          <Asked store={store} taskId={taskId} />
          <TaskActions store={store} task={task} />
          <FailureView failure={task.failure} />
          <Facts store={store} task={task} spec={spec} />
          <Definition store={store} taskId={taskId} revision={task.revision} />
          {task.progress && (
            <section>
              <h3>Progress that it reported last</h3>
              <PayloadView payload={task.progress} name={`${taskId}-progress`} />
            </section>
          )}
          <Attempts store={store} task={task} />
          <TaskResult runId={store.runId} task={task} />
        </>
      )}
    </aside>
  );
}

function Facts({ store, task, spec }: { store: RunStore; task: Task; spec: TaskSpec }) {
  const question = store.view!.questions.get(task.questionId);
  const facts: [string, preact.ComponentChildren][] = [
    ["type", spec.type],
    ["role", spec.role],
    ["after", spec.dependsOn.length > 20 ? count(spec.dependsOn.length, "task") : spec.dependsOn.map((one) => <TaskLink key={one} id={one} />)],
    ["effect", spec.effect === Effect.AT_MOST_ONCE ? "at most once" : ""],
    ["on failure", spec.onFailure > OnFailure.FAIL_RUN ? word(OnFailure, spec.onFailure) : ""],
    ["time-out", spec.attemptTimeout ? `${span(spanMs(spec.attemptTimeout))} an attempt` : ""],
    ["total time-out", spec.totalTimeout ? span(spanMs(spec.totalTimeout)) : ""],
    ["idempotency key", spec.idempotencyKey],
    ["defined by", task.revision ? `plan ${task.revision}` : ""],
    ["first leased", task.startedTime && ms(task.startedTime) ? <Time at={ms(task.startedTime)} /> : ""],
    ["ended", task.endedTime && ms(task.endedTime) ? <Time at={ms(task.endedTime)} /> : ""],
    ["result of", task.resultRunId ? <a href={runPath(task.resultRunId, "", { task: task.taskId })}>run {shortId(task.resultRunId)}</a> : ""],
    ["deduplicated", task.deduplicatedFrom],
    ["waits for", task.keyRunId ? <a href={runPath(task.keyRunId)}>run {shortId(task.keyRunId)}</a> : ""],
    ["child runs", task.waits.some((one) => one.kind === WaitKind.CHILD) && <a href={runPath(store.runId, "tree", { task: task.taskId })}>waits for them</a>],
    ["asked", question ? visible(question.prompt) : ""],
    ["journal", task.journalEntries ? <a href={runPath(store.runId, "journal", { task: task.taskId })}>{count(Number(task.journalEntries), "entry").replace("entrys", "entries")}</a> : ""],
    ["messages", task.messages ? <a href={runPath(store.runId, "messages", { task: task.taskId })}>{number(task.messages)}</a> : ""],
    ["logs", task.attempts ? <a href={runPath(store.runId, "logs", { task: task.taskId })}>its log</a> : ""],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) => {
        const empty = !value || (Array.isArray(value) && !value.length);
        return (
          !empty && (
            <>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </>
          )
        );
      })}
    </dl>
  );
}

function TaskLink({ id }: { id: string }) {
  return (
    <>
      <a href={`?task=${encodeURIComponent(id)}`}>{id}</a>{" "}
    </>
  );
}

/** Reads a task's prompt and input: only a listing of all tasks has them. */
async function readSpec(runId: string, taskId: string): Promise<TaskSpec | undefined> {
  const list = (pageToken: string) => api.listTasks({ runId, view: View.FULL, pageSize: 1_000, pageToken });
  for await (const page of pages(list)) {
    const found = page.tasks.find((one) => one.task?.taskId === taskId);
    if (found) return found.spec;
  }
  return undefined;
}

/** A task's prompt and input. */
export function Definition({ store, taskId, revision }: { store: RunStore; taskId: string; revision: number }) {
  const [asked, setAsked] = useState(store.view!.tasks.size <= LOOKED_FOR_MAX);
  const key = asked ? `${taskId}@${revision}` : "";
  const { value, problem } = useLoad(key, async () => (asked ? readSpec(store.runId, taskId) : undefined));
  if (!asked) {
    return (
      <button type="button" class="small" onClick={() => setAsked(true)}>
        Show prompt and input
      </button>
    );
  }
  if (problem) return <Problems of={problem} />;
  return (
    <>
      {value?.prompt && (
        <section>
          <h3>Prompt</h3>
          <TextView text={value.prompt} />
        </section>
      )}
      {value?.input && (
        <section>
          <h3>Input</h3>
          <PayloadView payload={value.input} name={`${taskId}-input`} />
        </section>
      )}
    </>
  );
}

function Attempts({ store, task }: { store: RunStore; task: Task }) {
  // Whatever changes an attempt changes one of these, or the rows that events have brought.
  const begun = [...store.view!.executions.values()].filter((one) => one.taskId === task.taskId).length;
  const key = `${task.status}/${begun}/${task.resultId}`;
  const { value, problem } = useLoad(key, async () => {
    const found = [];
    const list = (pageToken: string) => api.listExecutions({ runId: store.runId, taskId: task.taskId, pageToken });
    for await (const page of pages(list)) found.push(...page.executions);
    return found.reverse();
  });
  if (problem) return <Problems of={problem} />;
  if (!value?.length) return null;
  return (
    <section>
      <h3>Attempts</h3>
      {value.map((one) => (
        <Attempt key={one.executionId} store={store} execution={store.view!.executions.get(one.executionId) ?? one} />
      ))}
    </section>
  );
}

export function TaskResult({ runId, task }: { runId: string; task: Task }) {
  const { value, problem } = useLoad(task.resultId, async () => {
    if (!task.resultId) return undefined;
    const { results } = await api.listResults({ runId, taskIds: [task.taskId] });
    return results[0];
  });
  if (problem) return <Problems of={problem} />;
  if (!value?.payload) return null;
  return (
    <section>
      <h3>Result</h3>
      <PayloadView payload={value.payload} name={`${task.taskId}-result`} />
    </section>
  );
}
