// What can be done with a task.
import { useState } from "preact/hooks";
import { api } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { may } from "../api/session.ts";
import { type Execution, Finding, type Task, TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { parse } from "../model/json.ts";
import { isEnded, SETTLED } from "../model/words.ts";
import { Dialog, Reason } from "../ui/dialog.tsx";

export function TaskActions({ store, task }: { store: RunStore; task: Task }) {
  const [open, setOpen] = useState<"retry" | "skip">();
  const run = store.view!.run;
  if (!may("run:write") || isEnded(run)) return null;
  const again =
    task.status === TaskStatus.FAILED || task.status === TaskStatus.SKIPPED || task.status === TaskStatus.READY;
  const skip = !SETTLED.has(task.status);
  const close = () => setOpen(undefined);
  return (
    <div class="row" role="group" aria-label="Actions of the task">
      {again && (
        <button type="button" class="small" onClick={() => setOpen("retry")}>
          {task.status === TaskStatus.READY ? "Try now" : "Run again"}
        </button>
      )}
      {skip && (
        <button type="button" class="small" onClick={() => setOpen("skip")}>
          Skip
        </button>
      )}
      {open === "retry" && <RetryDialog store={store} task={task} close={close} />}
      {open === "skip" && <SkipDialog store={store} task={task} close={close} />}
    </div>
  );
}

interface Props {
  store: RunStore;
  task: Task;
  close: () => void;
}

function RetryDialog({ store, task, close }: Props) {
  const [reason, setReason] = useState("");
  const [fresh, setFresh] = useState(false);
  const send = async (requestId: string) => {
    const answer = await api.retryTask({ runId: store.runId, taskId: task.taskId, reason, fresh, requestId });
    store.commanded(answer.run);
  };
  return (
    <Dialog title={`Run ${task.taskId} again`} action="Run again" send={send} close={close}>
      <p>It gets a new allowance of attempts, and what was skipped because of it runs, too.</p>
      <label class="field check">
        <input type="checkbox" checked={fresh} onChange={(event) => setFresh(event.currentTarget.checked)} />
        <span>Begin its journal anew: its calls are made again, except at-most-once ones</span>
      </label>
      <Reason value={reason} set={setReason} />
    </Dialog>
  );
}

function SkipDialog({ store, task, close }: Props) {
  const [reason, setReason] = useState("");
  const [skipDependents, setSkipDependents] = useState(false);
  const send = async (requestId: string) => {
    const request = { runId: store.runId, taskId: task.taskId, reason, skipDependents, requestId };
    store.commanded((await api.skipTask(request)).run);
  };
  return (
    <Dialog title={`Skip ${task.taskId}`} action="Skip" danger send={send} close={close}>
      <p>It is settled without a result, whatever it is doing. What depends on it goes on and is shown that.</p>
      <label class="field check">
        <input
          type="checkbox"
          checked={skipDependents}
          onChange={(event) => setSkipDependents(event.currentTarget.checked)}
        />
        <span>Skip what depends on it, too</span>
      </label>
      <Reason value={reason} set={setReason} />
    </Dialog>
  );
}

/** Settles an outcome that nobody knows. */
export function ResolveButton({ store, execution }: { store: RunStore; execution: Execution }) {
  const [open, setOpen] = useState(false);
  if (!may("run:write")) return null;
  return (
    <>
      <button type="button" class="small primary" onClick={() => setOpen(true)}>
        Settle it
      </button>
      {open && <ResolveDialog store={store} execution={execution} close={() => setOpen(false)} />}
    </>
  );
}

type Found = "done" | "failed" | "not done";

function ResolveDialog(props: { store: RunStore; execution: Execution; close: () => void }) {
  const { store, execution } = props;
  const [found, setFound] = useState<Found>("done");
  const [result, setResult] = useState("null");
  const [message, setMessage] = useState("");
  const [reason, setReason] = useState("");
  const send = async (requestId: string) => {
    if (found === "done") parse(result);
    const answer = await api.resolveExecution({
      runId: store.runId,
      executionId: execution.executionId,
      finding: found === "not done" ? Finding.NOT_DONE : Finding.DONE,
      ...(found === "done" ? { result: { data: new TextEncoder().encode(result.trim()) } } : {}),
      ...(found === "failed" ? { failure: { kind: "Failed", message } } : {}),
      reason,
      requestId,
      call: execution.unknownCall,
    });
    store.commanded(answer.run);
  };
  const choice = (value: Found, text: string) => (
    <label class="field check">
      <input type="radio" name="found" checked={found === value} onChange={() => setFound(value)} />
      <span>{text}</span>
    </label>
  );
  const whose = execution.unknownCall ? `the call ${execution.unknownCall}` : execution.executionId;
  return (
    <Dialog title="What became of it?" action="Settle" send={send} close={props.close}>
      <p>
        Nobody knows what came of <code>{whose}</code>. Look in the system that it acts on, and say what you found.
      </p>
      {choice("done", "It was done, with this result")}
      {found === "done" && (
        <label class="field">
          <span>Result, as JSON</span>
          <textarea value={result} onInput={(event) => setResult(event.currentTarget.value)} />
        </label>
      )}
      {!execution.unknownCall && choice("failed", "It was done, and it failed all the same")}
      {found === "failed" && (
        <label class="field">
          <span>How it failed</span>
          <input value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
        </label>
      )}
      {choice("not done", "It was not done: it is run again")}
      <Reason value={reason} set={setReason} />
    </Dialog>
  );
}
