// Why a run failed: the failure, what can be done, and the step that failed with its input, output, log and journal side by
// side.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { may } from "../api/session.ts";
import { type Execution, ExecutionStatus, JournalMark, type LogEntry, LogKind, RunStatus, TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { visible } from "../model/strange.ts";
import { moment, ms, number, span, spanMs } from "../model/text.ts";
import { stepName } from "../model/runView.ts";
import { failureLine } from "../model/words.ts";
import { Foreign } from "../ui/foreign.tsx";
import { Empty, Problems, useLoad } from "../ui/parts.tsx";
import { runPath } from "../ui/router.ts";
import { CommandDialog } from "./actions.tsx";
import { Attempt, FailureView } from "./attempt.tsx";
import { Definition } from "./taskPanel.tsx";

const MARKS: Partial<Record<JournalMark, string>> = {
  [JournalMark.BEGIN]: "begun",
  [JournalMark.TRY]: "failed try",
  [JournalMark.WAIT]: "waits",
};
const STEPS_MAX = 3;
const LINES_MAX = 100;
const CALLS_MAX = 50;

export function ReasonTab({ store }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  const { run } = view;
  useEffect(() => {
    if (store.listed) void store.listExecutions();
  }, [store.listed]);
  if (run.status !== RunStatus.FAILED) return <Empty>This run hasn't failed.</Empty>;
  const steps = lastAttempts(store);
  return (
    <div class="fill scroll-y stack">
      {store.executionsListed && !steps.length && <FailureView failure={run.failure} />}
      <ToDo store={store} />
      {!store.executionsListed && <Empty>Reading the attempts …</Empty>}
      {steps.slice(0, STEPS_MAX).map((one) => (
        <FailedStep key={one.executionId} store={store} execution={one} />
      ))}
      {steps.length > STEPS_MAX && <a href={runPath(store.runId, "tasks", { status: "FAILED" })}>All {number(steps.length)} failed tasks</a>}
    </div>
  );
}

/** The last attempts at the tasks that failed; without such a task, at the step that failed. */
function lastAttempts(store: RunStore): Execution[] {
  const view = store.view!;
  const ended = [...view.executions.values()].filter((one) => ms(one.endedTime) > 0);
  const failed = [...view.tasks.values()].filter((one) => one.status === TaskStatus.FAILED);
  const last = (found: Execution[]) => found.sort((a, b) => ms(a.endedTime) - ms(b.endedTime)).at(-1);
  if (failed.length) return failed.flatMap((task) => last(ended.filter((one) => one.taskId === task.taskId)) ?? []);
  return [last(ended.filter((one) => one.status !== ExecutionStatus.COMPLETED))].filter((one) => one !== undefined);
}

function ToDo({ store }: { store: RunStore }) {
  const [open, setOpen] = useState(false);
  const { run } = store.view!;
  const spec = run.spec!;
  const isInput = run.failure?.kind === "INVALID_INPUT";
  const again = new URLSearchParams({ pipeline: spec.pipelineId, queue: spec.queue, goal: spec.goal });
  return (
    <section aria-label="What can be done" class="three">
      <div class="card stack">
        <h3>Run it again from where it failed</h3>
        <small>
          {isInput
            ? "It would fail again: the run's input stays as it is."
            : "For a cause that has gone, or is mended in the agent. What was completed stays, failed tasks run again."}
        </small>
        {may("run:write") && (
          <button type="button" class={isInput ? "" : "primary"} onClick={() => setOpen(true)}>
            Resume
          </button>
        )}
      </div>
      <div class="card stack">
        <h3>Fork it with something changed</h3>
        <small>Another input, plan or version of the workers. What doesn't change is kept, and this run stays as it is.</small>
        <a class="button" href={runPath(store.runId, "fork")}>
          Fork
        </a>
      </div>
      <div class="card stack">
        <h3>Start another run</h3>
        <small>With the same goal and queue, and an input of your own. Nothing is kept.</small>
        <a class="button" href={`/start?${again}`}>
          Start
        </a>
      </div>
      {open && <CommandDialog store={store} command="resume" close={() => setOpen(false)} />}
    </section>
  );
}

function FailedStep({ store, execution }: { store: RunStore; execution: Execution }) {
  const { taskId, executionId } = execution;
  const task = store.view!.tasks.get(taskId);
  const title = store.view!.specs.get(taskId)?.title || stepName(execution);
  const query: Record<string, string> = taskId ? { task: taskId } : { step: stepName(execution) };
  return (
    <section class="stack" aria-label={`Failed: ${visible(title)}`}>
      <h3>
        <a href={runPath(store.runId, taskId ? "tasks" : "timeline", query)}>{visible(title)}</a>
      </h3>
      <div class="panes">
        <Pane title="Input">
          {task ? <Definition store={store} taskId={taskId} revision={task.revision} /> : <small>The run's goal and input.</small>}
        </Pane>
        <Pane title="Output of the last attempt">
          <Attempt store={store} execution={execution} />
        </Pane>
        <Pane title="Log">
          <Log runId={store.runId} executionId={executionId} />
        </Pane>
        <Pane title="Journal">
          <Calls runId={store.runId} taskId={taskId} executionId={executionId} />
        </Pane>
      </div>
    </section>
  );
}

function Pane({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="card pane" aria-label={title} tabIndex={0}>
      <h4>{title}</h4>
      {children}
    </section>
  );
}

/** The last lines that the attempt wrote. */
function Log({ runId, executionId }: { runId: string; executionId: string }) {
  const { value, problem } = useLoad(executionId, async () => {
    const found: LogEntry[] = [];
    for await (const { message } of api.watchLogs({ runId, executionId })) {
      if (message.case !== "entries") continue;
      for (const entry of message.value.entries) {
        const last = found.at(-1);
        const goesOn = entry.kind === LogKind.CHUNK && last?.kind === LogKind.CHUNK;
        if (goesOn) found[found.length - 1] = { ...last, text: last.text + entry.text };
        else found.push(entry);
      }
      found.splice(0, found.length - LINES_MAX);
    }
    return found;
  });
  if (problem) return <Problems of={problem} />;
  if (!value) return <small>Reading …</small>;
  if (!value.length) return <small>It wrote nothing.</small>;
  return (
    <div class="log">
      {value.map((one) => (
        <div class={`line level-${one.level.toLowerCase()}`}>
          <small>{moment(ms(one.writtenTime)).slice(11)}</small>
          <pre>
            <Foreign text={one.text} />
          </pre>
        </div>
      ))}
    </div>
  );
}

function Calls({ runId, taskId, executionId }: { runId: string; taskId: string; executionId: string }) {
  const { value, problem } = useLoad(executionId, async () => {
    const { entries } = await api.listJournal(taskId ? { runId, taskId, pageSize: 1_000 } : { runId, executionId, pageSize: 1_000 });
    return entries;
  });
  if (problem) return <Problems of={problem} />;
  if (!value) return <small>Reading …</small>;
  if (!value.length) return <small>It recorded no call.</small>;
  return (
    <>
      <ul class="plain-list">
        {value.slice(-CALLS_MAX).map(({ entry }) => (
          <li>
            <small>{MARKS[entry!.mark] ?? "done"}</small> <b>{visible(entry!.name || entry!.key)}</b>{" "}
            {entry!.took && <small>{span(spanMs(entry!.took))}</small>} {failureLine(entry!.failure)}
          </li>
        ))}
      </ul>
      {taskId && <a href={runPath(runId, "journal", { task: taskId })}>The whole journal</a>}
    </>
  );
}
