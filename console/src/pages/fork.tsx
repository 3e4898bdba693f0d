// A fork of a run: from which version, with what changed, and what the check before it says.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, pages, type Problem, problem, requestId } from "../api/client.ts";
import { may } from "../api/session.ts";
import type { Checkpoint, ForkRunResponse, TaskEntry } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { EventType, type Run, TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { parse } from "../model/json.ts";
import { count, ms, number, shortId, word } from "../model/text.ts";
import { runTitle, taskCounts, where } from "../model/words.ts";
import { JsonField } from "../ui/form.tsx";
import { Empty, Problems, StatusPill, TaskMark, Time, useLoad, useTitle } from "../ui/parts.tsx";
import { navigate, runPath, setQuery, useRoute } from "../ui/router.ts";
import { VirtualList } from "../ui/virtual.tsx";

/** Moving the slider asks the server once it has stood still so long. */
const STILL_MS = 150;

export function ForkPage({ runId }: { runId: string }) {
  const { query } = useRoute();
  const last = useLoad(runId, async () => (await api.getRun({ runId })).run!);
  useTitle(`Fork ${shortId(runId)}`);
  if (last.problem) return <Problems of={last.problem} />;
  if (!last.value) return <Empty>Reading the run …</Empty>;
  const newest = Number(last.value.version);
  const at = Math.min(Math.max(1, Number(query.get("at")) || newest), newest);
  return <Forking run={last.value} newest={newest} at={at} />;
}

function Forking({ run, newest, at }: { run: Run; newest: number; at: number }) {
  const runId = run.spec!.runId;
  const [slider, setSlider] = useState(at);
  useEffect(() => setSlider(at), [at]);
  useEffect(() => {
    if (slider === at) return;
    const timer = setTimeout(() => setQuery({ at: String(slider) }), STILL_MS);
    return () => clearTimeout(timer);
  }, [slider]);
  const checkpoints = useLoad(`checkpoints ${runId}`, async () => {
    const found: Checkpoint[] = [];
    for await (const page of pages((pageToken) => api.listCheckpoints({ runId, pageToken }))) {
      found.push(...page.checkpoints);
    }
    return found;
  });
  return (
    <div class="page narrow">
      <div class="row">
        <h1>Fork: {runTitle(run)}</h1>
        <a href={runPath(runId)}>{shortId(runId)}</a>
      </div>
      <p class="quiet">
        A fork is a new run that starts from a version of this one. What was completed there is kept, by reference; the
        rest goes on with what is changed here. This run stays as it is.
      </p>
      <section class="card stack">
        <label class="field">
          <span>
            From version {number(slider)} of {number(newest)}
          </span>
          <input
            class="slider"
            type="range"
            min={1}
            max={newest}
            value={slider}
            onInput={(event) => setSlider(Number(event.currentTarget.value))}
          />
        </label>
        <div class="chips" role="group" aria-label="Checkpoints">
          {checkpoints.value?.map((one) => (
            <button
              key={String(one.event)}
              type="button"
              class="chip"
              aria-pressed={Number(one.version) === slider}
              title={one.message}
              onClick={() => setSlider(Number(one.version))}
            >
              {number(one.version)}: {word(EventType, one.type)}
            </button>
          ))}
        </div>
        <AsOf runId={runId} version={at} />
      </section>
      {may("run:write") && <ForkForm run={run} version={at} />}
    </div>
  );
}

/** The run as it stood at a version. */
function AsOf({ runId, version }: { runId: string; version: number }) {
  const { value, problem: failed } = useLoad(`${runId} ${version}`, async () => {
    const at = BigInt(version);
    const run = (await api.getRun({ runId, version: at })).run!;
    const tasks: TaskEntry[] = [];
    const list = (pageToken: string) => api.listTasks({ runId, version: at, pageSize: 1_000, pageToken });
    for await (const page of pages(list)) tasks.push(...page.tasks);
    return { run, tasks };
  });
  if (failed) return <Problems of={failed} />;
  if (!value) return <Empty>Reading version {number(version)} …</Empty>;
  const { run, tasks } = value;
  return (
    <div class="stack">
      <div class="row" role="status">
        <StatusPill status={run.status} />
        <span>{where(run)}</span>
        <span>{taskCounts(run)}</span>
        {run.planRevision > 0 && <span>plan {number(run.planRevision)}</span>}
        {run.endedTime && ms(run.endedTime) > 0 && (
          <span>
            ended <Time at={ms(run.endedTime)} />
          </span>
        )}
      </div>
      {tasks.length > 0 && (
        <VirtualList
          label={`Tasks at version ${version}`}
          class="fixed"
          count={tasks.length}
          rowHeight={34}
          keyOf={(index) => tasks[index]!.task!.taskId}
          row={(index) => {
            const { task, spec } = tasks[index]!;
            return (
              <div class="task-row">
                <TaskMark status={task?.status ?? TaskStatus.PENDING} />
                <span class="clip">{spec?.title || task?.taskId}</span>
                <small class="clip">{spec?.type}</small>
              </div>
            );
          }}
        />
      )}
    </div>
  );
}

function ForkForm({ run, version }: { run: Run; version: number }) {
  const [goal, setGoal] = useState(run.spec!.goal);
  const [input, setInput] = useState("");
  const [replan, setReplan] = useState(false);
  const [failed, setFailed] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const runId = run.spec!.runId;
  const request = useMemo(() => {
    let fault = "";
    try {
      if (input.trim()) parse(input);
    } catch (error) {
      fault = (error as Error).message;
    }
    return {
      fault,
      fields: {
        runId,
        version: BigInt(version),
        replan,
        ...(goal === run.spec!.goal ? {} : { goal }),
        ...(input.trim() && !fault ? { input: { data: new TextEncoder().encode(input.trim()) } } : {}),
      },
      // The same fork, asked for again, is the same request.
      id: requestId(),
    };
  }, [runId, version, goal, input, replan]);
  const [checked, setChecked] = useState<{ id: string; answer?: ForkRunResponse; problem?: Problem }>();
  useEffect(() => {
    let wanted = true;
    const timer = setTimeout(() => {
      api.forkRun({ ...request.fields, validateOnly: true }).then(
        (answer) => wanted && setChecked({ id: request.id, answer }),
        (error: unknown) => wanted && setChecked({ id: request.id, problem: problem(error) }),
      );
    }, STILL_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [request]);
  const fits = checked?.id === request.id && checked.answer?.violations.length === 0;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const answer = await api.forkRun({ ...request.fields, requestId: request.id });
      navigate(runPath(answer.run!.spec!.runId));
    } catch (error) {
      setFailed(problem(error));
      setBusy(false);
    }
  };
  return (
    <form class="card form" onSubmit={(event) => void submit(event)}>
      <label class="field">
        <span>Goal</span>
        <textarea value={goal} onInput={(event) => setGoal(event.currentTarget.value)} />
      </label>
      <JsonField label="Another input, as JSON (empty: the same)" value={input} set={setInput} />
      {request.fault && <p class="problem">This is no JSON. {request.fault}</p>}
      <label class="field check">
        <input type="checkbox" checked={replan} onChange={(event) => setReplan(event.currentTarget.checked)} />
        <span>Make another plan before anything else is done</span>
      </label>
      <section aria-label="The check before the fork" aria-live="polite">
        <h2>What it comes to</h2>
        {checked?.id === request.id ? <Check checked={checked} /> : <p class="quiet">Checking …</p>}
      </section>
      <Problems of={failed} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={busy || !fits || request.fault !== ""}>
          Start the fork
        </button>
      </div>
    </form>
  );
}

function Check({ checked }: { checked: { answer?: ForkRunResponse; problem?: Problem } }) {
  if (checked.problem) return <Problems of={checked.problem} />;
  const answer = checked.answer!;
  if (answer.violations.length) {
    return (
      <div class="problem">
        <p>It doesn't fit:</p>
        <ul>
          {answer.violations.map((one) => (
            <li key={one.taskId + one.field + one.description}>
              {one.taskId && <code>{one.taskId}</code>} {one.description}
            </li>
          ))}
        </ul>
      </div>
    );
  }
  return (
    <div class="stack">
      <p>
        {count(answer.kept, "result")} kept, {count(answer.rerun, "completed task")} run again,{" "}
        {count(answer.pending, "task")} still to do.
      </p>
      <Names title="Run again" names={answer.rerunTaskIds} />
      <Names title="Still to do" names={answer.pendingTaskIds} />
      <Names title="Kept" names={answer.keptTaskIds} />
      {answer.warnings.map((one) => (
        <p key={one} class="note">
          {one}
        </p>
      ))}
    </div>
  );
}

const NAMES_MAX = 50;

function Names({ title, names }: { title: string; names: string[] }) {
  if (!names.length) return null;
  return (
    <details>
      <summary>{title}</summary>
      <p class="mono">
        {names.slice(0, NAMES_MAX).join(", ")}
        {names.length > NAMES_MAX && ` and ${number(names.length - NAMES_MAX)} more`}
      </p>
    </details>
  );
}
