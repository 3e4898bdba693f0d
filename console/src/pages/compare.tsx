// Two runs side by side: how they stand, what they cost, and for each task how it was planned and what it came to.
import { useState } from "preact/hooks";
import { api, pages } from "../api/client.ts";
import type { Result } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { type Run, RunStatus, type Task, type TaskSpec, View } from "../gen/stepwell/v1/types_pb.ts";
import { compare, type TaskChange } from "../model/changes.ts";
import { cost, moment, ms, number, shortId, span, word } from "../model/text.ts";
import { runTitle, taskCounts, took, where } from "../model/words.ts";
import { Empty, Problems, TaskMark, useLoad, useTitle } from "../ui/parts.tsx";
import { PayloadView } from "../ui/payload.tsx";
import { comparePath, navigate, runPath } from "../ui/router.ts";
import { SIGN_WORDS } from "../run/plans.tsx";

interface Side {
  run: Run;
  specs: TaskSpec[];
  tasks: Map<string, Task>;
  results: Map<string, Result>;
  result: Result | undefined;
}

const ROWS_MAX = 500;
const OFFERED_MAX = 100;
const HINT = "Choose one, or type words of its goal or its id";

async function readSide(runId: string): Promise<Side> {
  const side: Side = {
    run: (await api.getRun({ runId })).run!,
    specs: [],
    tasks: new Map(),
    results: new Map(),
    result: undefined,
  };
  const list = (pageToken: string) => api.listTasks({ runId, view: View.FULL, pageSize: 1_000, pageToken });
  for await (const page of pages(list)) {
    for (const { task, spec } of page.tasks) {
      if (task) side.tasks.set(task.taskId, task);
      if (spec) side.specs.push(spec);
    }
  }
  for await (const page of pages((pageToken) => api.listResults({ runId, pageToken }))) {
    side.result ??= page.runResult;
    for (const one of page.results) side.results.set(one.taskId, one);
  }
  return side;
}

export function ComparePage({ first, second }: { first: string; second: string }) {
  useTitle("Compare");
  if (!first || !second) return <Choose first={first} />;
  return <Compared key={`${first} ${second}`} first={first} second={second} />;
}

function Choose({ first }: { first: string }) {
  const [a, setA] = useState(first);
  const [b, setB] = useState("");
  const offered = useLoad("runs", async () => (await api.listRuns({ pageSize: OFFERED_MAX })).runs);
  const submit = (event: Event) => {
    event.preventDefault();
    navigate(comparePath(a.trim(), b.trim()));
  };
  return (
    <form class="page narrow" onSubmit={submit}>
      <h1>Compare two runs</h1>
      <label class="field">
        <span>A run</span>
        <input value={a} required list="runs" placeholder={HINT} onInput={(event) => setA(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Another run</span>
        <input value={b} required list="runs" placeholder={HINT} onInput={(event) => setB(event.currentTarget.value)} />
      </label>
      <Offered runs={offered.value ?? []} first={a.trim()} />
      <Problems of={offered.problem} />
      <div>
        <button type="submit" class="primary">
          Compare
        </button>
      </div>
    </form>
  );
}

/** The newest runs, those of the first one's pipeline before the others. */
function Offered({ runs, first }: { runs: Run[]; first: string }) {
  const pipeline = runs.find((one) => one.spec!.runId === first)?.spec!.pipelineId;
  const isNear = (one: Run) => pipeline !== undefined && one.spec!.pipelineId === pipeline;
  const others = runs.filter((one) => one.spec!.runId !== first);
  return (
    <datalist id="runs">
      {[...others.filter(isNear), ...others.filter((one) => !isNear(one))].map((one) => (
        <option key={one.spec!.runId} value={one.spec!.runId}>
          {`${runTitle(one)} · ${word(RunStatus, one.status)} · ${moment(ms(one.createdTime))}`}
        </option>
      ))}
    </datalist>
  );
}

function Compared({ first, second }: { first: string; second: string }) {
  const { value, problem } = useLoad(`${first} ${second}`, () => Promise.all([readSide(first), readSide(second)]));
  const [all, setAll] = useState(false);
  if (problem) return <Problems of={problem} />;
  if (!value) return <Empty>Reading both runs …</Empty>;
  const [a, b] = value;
  const rows = compare(a.specs, b.specs);
  return (
    <div class="page">
      <h1>Compare</h1>
      <div class="scroll card">
        <Facts a={a} b={b} />
      </div>
      <div class="scroll card">
        <table>
          <thead>
            <tr>
              <th />
              <th>task</th>
              <th>{shortId(first)}</th>
              <th>{shortId(second)}</th>
              <th>planned</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, all ? rows.length : ROWS_MAX).map((one) => (
              <TaskRow key={one.taskId} change={one} a={a} b={b} />
            ))}
          </tbody>
        </table>
        {!all && rows.length > ROWS_MAX && (
          <button type="button" class="small" onClick={() => setAll(true)}>
            Show all {number(rows.length)}
          </button>
        )}
      </div>
      {(a.result?.payload || b.result?.payload) && (
        <div class="two">
          {[a, b].map((side) => (
            <section class="card" key={side.run.spec!.runId}>
              <h2>{shortId(side.run.spec!.runId)}: its result</h2>
              {side.result?.payload && <PayloadView payload={side.result.payload} name="result" />}
            </section>
          ))}
        </div>
      )}
    </div>
  );
}

function facts({ run, tasks }: Side): Record<string, string> {
  const { usage } = run;
  const kept = [...tasks.values()].filter((one) => one.resultRunId).length;
  return {
    status: word(RunStatus, run.status),
    goal: runTitle(run),
    "forked from": run.spec!.parentRunId
      ? `${shortId(run.spec!.parentRunId)} at version ${run.spec!.parentVersion}`
      : "",
    stage: where(run),
    plan: run.planRevision ? String(run.planRevision) : "",
    tasks: taskCounts(run),
    kept: kept ? number(kept) : "",
    tokens: usage ? `${number(usage.inputTokens)} in, ${number(usage.outputTokens)} out` : "",
    cost: usage?.costMicros ? cost(usage.costMicros) : "",
    started: moment(ms(run.createdTime)),
    took: run.startedTime ? span(took(run, Date.now())) : "",
  };
}

function Facts({ a, b }: { a: Side; b: Side }) {
  const left = facts(a);
  const right = facts(b);
  return (
    <table>
      <thead>
        <tr>
          <th />
          {[a, b].map(({ run }) => (
            <th key={run.spec!.runId}>
              <a href={runPath(run.spec!.runId)}>{shortId(run.spec!.runId)}</a>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Object.keys(left)
          .filter((name) => left[name] || right[name])
          .map((name) => (
            <tr key={name} class={left[name] === right[name] ? "same" : ""}>
              <th scope="row">{name}</th>
              <td>{left[name] || "–"}</td>
              <td>{right[name] || "–"}</td>
            </tr>
          ))}
      </tbody>
    </table>
  );
}

/** Whether both have a result and these are the same bytes; undefined: one has none, or its bytes were not sent. */
function sameResult(a: Result | undefined, b: Result | undefined): boolean | undefined {
  if (a?.executionId && a.executionId === b?.executionId && (a.runId || b.runId)) return true;
  if (!a?.payload || !b?.payload) return undefined;
  const [one, other] = [a.payload.data, b.payload.data];
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}

function TaskRow({ change, a, b }: { change: TaskChange; a: Side; b: Side }) {
  const { sign, taskId, fields } = change;
  const same = sameResult(a.results.get(taskId), b.results.get(taskId));
  const cell = (side: Side) => {
    const task = side.tasks.get(taskId);
    if (!task) return "–";
    return (
      <a href={runPath(side.run.spec!.runId, "", { task: taskId })}>
        <TaskMark status={task.status} />
      </a>
    );
  };
  return (
    <tr class={sign === "=" && same !== false ? "same" : ""}>
      <td class={`sign ${SIGN_WORDS[sign]}`}>{sign}</td>
      <td>{taskId}</td>
      <td>{cell(a)}</td>
      <td>
        {cell(b)} {same !== undefined && <small>{same ? "the same result" : "another result"}</small>}
      </td>
      <td>
        {SIGN_WORDS[sign]}
        {fields.length > 0 && `: ${fields.join(", ")}`}
      </td>
    </tr>
  );
}
