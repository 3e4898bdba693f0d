// What can be done with a run.
import { useState } from "preact/hooks";
import { api } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { may } from "../api/session.ts";
import { type Run, RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { spanMs } from "../model/text.ts";
import { isEnded } from "../model/words.ts";
import { Dialog, Reason } from "../ui/dialog.tsx";
import { navigate, runPath } from "../ui/router.ts";

type Command = "pause" | "resume" | "stop" | "cancel" | "delete" | "budget";

export function Actions({ store }: { store: RunStore }) {
  const [open, setOpen] = useState<Command>();
  const run = store.view!.run;
  const ended = isEnded(run);
  const canResume = run.status === RunStatus.PAUSED || run.status === RunStatus.FAILED;
  const close = () => setOpen(undefined);
  const button = (command: Command, title: string) => (
    <button type="button" onClick={() => setOpen(command)}>
      {title}
    </button>
  );
  const write = may("run:write");
  return (
    <div class="row" role="group" aria-label="Actions">
      {write && canResume && button("resume", "Resume")}
      {write && !ended && run.status !== RunStatus.PAUSED && button("pause", "Pause")}
      {write && !ended && button("budget", "Budget")}
      {write && !ended && !run.stopping && button("stop", "Stop")}
      {write && !ended && button("cancel", "Cancel")}
      <a class="button" href={runPath(store.runId, "fork")}>
        Fork
      </a>
      {may("admin") && ended && button("delete", "Delete")}
      {open === "budget" && <BudgetDialog store={store} close={close} />}
      {open && open !== "budget" && <CommandDialog store={store} command={open} close={close} />}
    </div>
  );
}

const WORDS: Record<Exclude<Command, "budget">, { title: string; action: string; says: string; danger?: boolean }> = {
  pause: {
    title: "Pause this run",
    action: "Pause",
    says: "Outcomes of work in flight are accepted, and nothing new is dispatched until it is resumed.",
  },
  resume: {
    title: "Resume this run",
    action: "Resume",
    says: "It goes on from its last checkpoint: completed tasks stay, failed and interrupted ones run again.",
  },
  stop: {
    title: "Stop after this iteration",
    action: "Stop",
    says: "The iteration in progress is the last one; then the run comes to its end.",
  },
  cancel: {
    title: "Cancel this run",
    action: "Cancel the run",
    says: "It ends for good. Its workers are told, and outcomes that come later are refused.",
    danger: true,
  },
  delete: {
    title: "Delete this run",
    action: "Delete",
    says: "It is removed with all that belongs to it. Results that forks of it have kept stay with them.",
    danger: true,
  },
};

/** Asks before a command is sent. */
export function CommandDialog(props: { store: RunStore; command: Exclude<Command, "budget">; close: () => void }) {
  const { store, command, close } = props;
  const [reason, setReason] = useState("");
  const [retryFailed, setRetryFailed] = useState(true);
  const words = WORDS[command];
  const runId = store.runId;
  const send = async (requestId: string) => {
    const request = { runId, reason, requestId };
    switch (command) {
      case "pause":
        return store.commanded((await api.pauseRun(request)).run);
      case "resume":
        return store.commanded((await api.resumeRun({ ...request, leaveFailed: !retryFailed })).run);
      case "stop":
        return store.commanded((await api.stopRun(request)).run);
      case "cancel":
        return store.commanded((await api.cancelRun(request)).run);
      case "delete":
        await api.deleteRun({ runId });
        return navigate("/runs");
    }
  };
  return (
    <Dialog title={words.title} action={words.action} danger={words.danger ?? false} send={send} close={close}>
      <p>{words.says}</p>
      {command === "resume" && store.view!.run.status === RunStatus.FAILED && (
        <label class="field check">
          <input
            type="checkbox"
            checked={retryFailed}
            onChange={(event) => setRetryFailed(event.currentTarget.checked)}
          />
          <span>Run failed tasks again</span>
        </label>
      )}
      {command !== "delete" && <Reason value={reason} set={setReason} />}
    </Dialog>
  );
}

const PARTS = [
  ["inputTokens", "Tokens in"],
  ["outputTokens", "Tokens out"],
  ["costMicros", "Cost, in millionths of the currency unit"],
  ["tasks", "Tasks"],
  ["iterations", "Iterations"],
] as const;

function BudgetDialog({ store, close }: { store: RunStore; close: () => void }) {
  const run: Run = store.view!.run;
  const [limits, setLimits] = useState<Record<string, string>>({});
  const [wall, setWall] = useState("");
  const [resume, setResume] = useState(true);
  const [reason, setReason] = useState("");
  const limited = PARTS.filter(([name]) => run.budget?.[name]);
  const wallMs = spanMs(run.budget?.wall);
  const send = async (requestId: string) => {
    const budget: Partial<Record<(typeof PARTS)[number][0], bigint>> = {};
    for (const [name, title] of limited) {
      const text = limits[name]?.trim();
      if (!text) continue;
      if (!/^[0-9]+$/.test(text)) throw new Error(`${title}: ${text} is no whole number`);
      budget[name] = BigInt(text);
    }
    const seconds = wall.trim();
    if (seconds && !/^[0-9]+$/.test(seconds)) throw new Error(`Time: ${seconds} is no whole number of seconds`);
    const time = seconds ? { wall: { seconds: BigInt(seconds), nanos: 0 } } : {};
    if (!seconds && !Object.keys(budget).length) throw new Error("Enter at least one higher limit.");
    const answer = await api.raiseBudget({
      runId: store.runId,
      budget: { ...budget, ...time },
      stayPaused: !resume,
      reason,
      requestId,
    });
    store.commanded(answer.run);
  };
  if (!limited.length && !wallMs) {
    return (
      <Dialog title="Raise the budget" action="Close" send={async () => undefined} close={close}>
        <p>This run has no limits, so there is none to raise.</p>
      </Dialog>
    );
  }
  return (
    <Dialog title="Raise the budget" action="Raise" send={send} close={close}>
      <p>These are new limits, not additions. What stays empty stays as it is.</p>
      {limited.map(([name, title]) => (
        <label class="field" key={name}>
          <span>
            {title} <small>(now {String(run.budget![name])})</small>
          </span>
          <input
            inputMode="numeric"
            value={limits[name] ?? ""}
            onInput={(event) => setLimits({ ...limits, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      {wallMs > 0 && (
        <label class="field">
          <span>
            Time, in seconds <small>(now {wallMs / 1_000})</small>
          </span>
          <input inputMode="numeric" value={wall} onInput={(event) => setWall(event.currentTarget.value)} />
        </label>
      )}
      <label class="field check">
        <input type="checkbox" checked={resume} onChange={(event) => setResume(event.currentTarget.checked)} />
        <span>Go on, where it is paused for its budget</span>
      </label>
      <Reason value={reason} set={setReason} />
    </Dialog>
  );
}
