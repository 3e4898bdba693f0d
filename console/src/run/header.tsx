// How a run stands: what it is, what it waits for, what it has used up.
import type { RunStore } from "../api/runStore.ts";
import { BlockedKind, type Budget, QuestionStatus, Phase, type Run, RunStatus, StepKind } from "../gen/stepwell/v1/types_pb.ts";
import { runSnippets } from "../model/snippets.ts";
import { visible } from "../model/strange.ts";
import { cost, moment, ms, number, shortId, span, spanMs, word } from "../model/text.ts";
import { blocked, caller, failureLine, isEnded, runTitle, taskCounts, took, where } from "../model/words.ts";
import { Copy, Meter, StatusPill, Time, useNow } from "../ui/parts.tsx";
import { CopyAs } from "../ui/copyAs.tsx";
import { BASE, comparePath, runPath } from "../ui/router.ts";
import { Asked } from "./asked.tsx";
import { Actions } from "./actions.tsx";
import { Delays } from "./delays.tsx";

export function Header({ store }: { store: RunStore }) {
  const { run, questions: asked } = store.view!;
  const questions = [...asked.values()].filter((one) => one.status === QuestionStatus.OPEN).length;
  const spec = run.spec!;
  const current = useNow();
  const waits = blocked(run);
  const counts = run.counts;
  const total = counts?.total ?? 0;
  return (
    <header class="run-head card">
      <div class="row">
        <StatusPill status={run.status} />
        <h1>{runTitle(run)}</h1>
        <span class="grow" />
        <Actions store={store} />
      </div>
      <div class="row quiet">
        <code>{shortId(spec.runId)}</code>
        <Copy text={spec.runId} label="Copy id" />
        <CopyAs of={runSnippets(location.origin + BASE, spec.runId)} />
        <a href={`/compare/${encodeURIComponent(spec.runId)}`}>Compare</a>
        {spec.pipelineId && <a href={`/runs?pipeline=${encodeURIComponent(spec.pipelineId)}`}>{spec.pipelineId}</a>}
        <span>{where(run)}</span>
        {run.startedTime && <span>{span(took(run, current))}</span>}
        <span>
          started <Time at={ms(run.createdTime)} />
        </span>
        {run.stopping && <span>ends after this iteration</span>}
      </div>
      <div class="row">
        <Stages run={run} />
        <span class="grow">
          {total > 0 && (
            <Meter part={Number(counts!.completed) / total} label={taskCounts(run)} tone={counts!.failed ? "bad" : ""} />
          )}
        </span>
        <small>{taskCounts(run)}</small>
      </div>
      {waits && !(questions && run.blockedOn === BlockedKind.QUESTION) && (
        <div class="note">
          <Waiting run={run} waits={waits} />
          {run.blockedOn === BlockedKind.TIMER && <Delays store={store} />}
        </div>
      )}
      {questions > 0 && <Asked store={store} isFolded />}
      {run.status === RunStatus.FAILED && failureLine(run.failure) && (
        <p class="problem">
          <a href={runPath(spec.runId, "reason")}>{failureLine(run.failure)}</a>
        </p>
      )}
      <Budgets run={run} now={current} />
      <More run={run} />
    </header>
  );
}

function Waiting({ run, waits }: { run: Run; waits: string }) {
  const since = ms(run.blockedSinceTime);
  return (
    <>
      Waits: {waits}
      {run.blockedRunId && (
        <>
          {" "}
          (<a href={runPath(run.blockedRunId)}>see it</a>)
        </>
      )}
      {run.blockedOn === BlockedKind.CHILD && (
        <>
          {" "}
          (<a href={runPath(run.spec!.runId, "tree")}>see it</a>)
        </>
      )}
      {run.blockedOn === BlockedKind.SIGNAL && (
        <>
          {" "}
          (<a href={runPath(run.spec!.runId, "signals")}>send it</a>)
        </>
      )}
      {since > 0 && (
        <>
          , began <Time at={since} />
        </>
      )}{" "}
    </>
  );
}

const STAGES: [Phase, StepKind, string][] = [
  [Phase.PLANNING, StepKind.PLAN, "plan"],
  [Phase.EXECUTING, StepKind.TASK, "tasks"],
  [Phase.REFLECTING, StepKind.REFLECT, "reflect"],
  [Phase.SYNTHESIZING, StepKind.SYNTHESIZE, "synthesize"],
];

/** The stages of the loop, and the one in progress. */
function Stages({ run }: { run: Run }) {
  const optional = [StepKind.REFLECT, StepKind.SYNTHESIZE];
  const shown = STAGES.filter(([, kind]) => !optional.includes(kind) || run.stages.includes(kind));
  return (
    <ol class="stages" aria-label="Stages of the loop">
      {shown.map(([phase, kind, name]) => (
        <li
          key={name}
          class={phase === run.phase ? "current" : run.phase > phase ? "over" : ""}
          aria-current={phase === run.phase ? "step" : undefined}
        >
          {kind === StepKind.TASK ? (
            <a href={runPath(run.spec!.runId, "tasks")}>{name}</a>
          ) : (
            <a href={runPath(run.spec!.runId, "timeline", { step: `${name} (iteration ${run.iteration})` })}>{name}</a>
          )}
        </li>
      ))}
    </ol>
  );
}

interface Part {
  name: string;
  used: number;
  limit: number;
  text: (value: number) => string;
}

/** The parts of a budget that have a limit, with what is used of them. */
function parts(run: Run, budget: Budget, now: number): Part[] {
  const plain = (value: number) => number(Math.round(value));
  const money = (value: number) => cost(BigInt(Math.round(value)));
  const began = ms(run.startedTime);
  const wall = began ? (ms(run.endedTime) || now) - began : 0;
  const iterations = run.iteration - run.iterationsBefore;
  const all: Part[] = [
    { name: "tokens in", used: Number(run.usage?.inputTokens ?? 0n), limit: Number(budget.inputTokens), text: plain },
    { name: "tokens out", used: Number(run.usage?.outputTokens ?? 0n), limit: Number(budget.outputTokens), text: plain },
    { name: "cost", used: Number(run.usage?.costMicros ?? 0n), limit: Number(budget.costMicros), text: money },
    { name: "tasks", used: Number(run.tasksUsed), limit: Number(budget.tasks), text: plain },
    { name: "iterations", used: iterations, limit: Number(budget.iterations), text: plain },
    { name: "time", used: wall, limit: spanMs(budget.wall), text: span },
  ];
  return all;
}

function Budgets({ run, now }: { run: Run; now: number }) {
  if (!run.budget) return null;
  const limited = parts(run, run.budget, now).filter((one) => one.limit > 0);
  if (!limited.length) return null;
  return (
    <div class="budgets" aria-label="Budget" role="group">
      {limited.map((one) => {
        const part = one.used / one.limit;
        const label = `${one.name}: ${one.text(one.used)} of ${one.text(one.limit)}`;
        return (
          <div key={one.name}>
            <small>{label}</small>
            <Meter part={part} label={label} tone={part >= 1 ? "bad" : part >= 0.8 ? "warn" : "live"} />
          </div>
        );
      })}
    </div>
  );
}

function More({ run }: { run: Run }) {
  const spec = run.spec!;
  const usage = run.usage;
  const attempts = Object.entries(run.attempts ?? {}).flatMap(([name, value]) =>
    typeof value === "bigint" && value
      ? [`${number(value)} ${name.replace(/[A-Z]/g, (one) => ` ${one.toLowerCase()}`)}`]
      : [],
  );
  const tokens = usage && (usage.inputTokens || usage.outputTokens);
  const facts: [string, preact.ComponentChildren][] = [
    ["id", spec.runId],
    ["goal", visible(spec.goal)],
    ["queue", spec.queue],
    ["labels", visible(Object.entries(spec.labels).map(([key, value]) => `${key}=${value}`).join(", "))],
    ["started by", spec.executorId],
    ["changed by", caller(run.actor, run.onBehalfOf)],
    ["created", moment(ms(run.createdTime))],
    ["ended", isEnded(run) ? moment(ms(run.endedTime)) : ""],
    ["version", `${number(run.version)} (${number(run.lastEvent)} events)`],
    ["plan", run.planRevision ? `revision ${run.planRevision}` : ""],
    ["workers' version", spec.workerVersion?.version ?? ""],
    ["attempts", attempts.join(", ")],
    ["tokens", tokens ? `${number(usage.inputTokens)} in, ${number(usage.outputTokens)} out` : ""],
    ["cost", usage?.costMicros ? cost(usage.costMicros) : ""],
    ["at once", `${number(spec.maxParallel)} tasks at most`],
    ["priority", spec.priority ? String(spec.priority) : ""],
    ["reason", visible(run.reason)],
    ["phase", word(Phase, run.phase)],
  ];
  return (
    <details class="more">
      <summary>
        Details
        {spec.parentRunId && (
          <span class="quiet">
            {" "}
            · forked from <a href={runPath(spec.parentRunId)}>{shortId(spec.parentRunId)}</a> at version{" "}
            {number(spec.parentVersion)} · <a href={comparePath(spec.parentRunId, spec.runId)}>compare</a>
          </span>
        )}
        {spec.childOf && (
          <span class="quiet">
            {" "}
            · child of <a href={runPath(spec.childOf.runId, "", { task: spec.childOf.taskId })}>{shortId(spec.childOf.runId)}</a>
          </span>
        )}
      </summary>
      <dl class="facts">
        {facts.map(
          ([name, value]) =>
            value && (
              <>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </>
            ),
        )}
      </dl>
    </details>
  );
}
