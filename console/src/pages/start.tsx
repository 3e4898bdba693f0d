// Starting a run.
import { useRef, useState } from "preact/hooks";
import { api, pages, type Problem, problem, requestId } from "../api/client.ts";
import { may } from "../api/session.ts";
import type { ConnectedWorker } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { StepKind, View } from "../gen/stepwell/v1/types_pb.ts";
import { planOf } from "../model/planJson.ts";
import { ms } from "../model/text.ts";
import { SchemaFields, useSchemaForm } from "../ui/form.tsx";
import { Empty, Problems, useLoad, useTitle } from "../ui/parts.tsx";
import { navigate, runPath, useRoute } from "../ui/router.ts";

async function listWorkers(): Promise<ConnectedWorker[]> {
  const found: ConnectedWorker[] = [];
  for await (const page of pages((pageToken) => api.listWorkers({ view: View.FULL, pageToken }))) {
    found.push(...page.workers);
  }
  return found;
}

/** The worker whose schema a form for runs of a queue is made from: of those that give one, the last to connect. */
function giverOf(workers: ConnectedWorker[], queue: string): ConnectedWorker | undefined {
  const since = (one: ConnectedWorker) => (one.connectedTime ? ms(one.connectedTime) : 0);
  return workers
    .filter((one) => one.inputSchema && one.queues.includes(queue))
    .sort((one, other) => since(other) - since(one))[0];
}

export function StartPage() {
  const { query } = useRoute();
  const [pipelineId, setPipelineId] = useState(query.get("pipeline") ?? "");
  const [queue, setQueue] = useState(query.get("queue") ?? "");
  const [goal, setGoal] = useState(query.get("goal") ?? "");
  const [schema, setSchema] = useState("");
  const [labels, setLabels] = useState("");
  const [plan, setPlan] = useState("");
  const [stages, setStages] = useState<StepKind[]>([]);
  const [limits, setLimits] = useState<Record<string, string>>({});
  const [failed, setFailed] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const workers = useLoad("workers", listWorkers).value ?? [];
  const giver = giverOf(workers, queue.trim() || pipelineId.trim() || "default");
  const form = useSchemaForm(schema || giver?.inputSchema || "");
  const last = useRef({ fields: "", id: "" });
  useTitle("Start a run");

  const request = () => {
    const input = form.text();
    return {
      pipelineId: pipelineId.trim(),
      queue: queue.trim(),
      goal,
      labels: labelsOf(labels),
      budget: budgetOf(limits),
      ...(input ? { input: { data: new TextEncoder().encode(input) } } : {}),
      ...(plan.trim() ? { plan: { tasks: planOf(plan) }, stages } : {}),
    };
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    setFailed(undefined);
    let fields: ReturnType<typeof request>;
    try {
      fields = request();
    } catch (error) {
      setFailed({ reason: "", message: (error as Error).message, faults: [] });
      return;
    }
    // The same run, asked for again after a lost answer, is the same request.
    const text = JSON.stringify([pipelineId, queue, goal, labels, limits, plan, stages, form.text()]);
    if (last.current.fields !== text) last.current = { fields: text, id: requestId() };
    setBusy(true);
    try {
      const answer = await api.startRun({ ...fields, requestId: last.current.id });
      navigate(runPath(answer.run!.spec!.runId));
    } catch (error) {
      setFailed(problem(error));
      setBusy(false);
    }
  };
  const toggle = (kind: StepKind) =>
    setStages(stages.includes(kind) ? stages.filter((one) => one !== kind) : [...stages, kind]);
  if (!may("run:write")) return <Empty>Your session may not start runs: it lacks the scope run:write.</Empty>;
  return (
    <form class="page narrow" onSubmit={(event) => void submit(event)}>
      <h1>Start a run</h1>
      <div class="two">
        <Text label="Pipeline" value={pipelineId} set={setPipelineId} list="queues" />
        <Text label="Queue (empty: the pipeline's name)" value={queue} set={setQueue} list="queues" />
        <datalist id="queues">
          {[...new Set(workers.flatMap((one) => one.queues))].sort().map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      </div>
      <label class="field">
        <span>Goal</span>
        <textarea value={goal} onInput={(event) => setGoal(event.currentTarget.value)} />
      </label>
      <SchemaFields form={form} label="Input" />
      {giver && !schema && <small>The fields are those that worker {giver.workerId} gives.</small>}
      <details>
        <summary>A form for the input, from another JSON schema</summary>
        <label class="field">
          <span>JSON schema</span>
          <textarea value={schema} spellcheck={false} onInput={(event) => setSchema(event.currentTarget.value)} />
        </label>
      </details>
      <details>
        <summary>A plan of your own</summary>
        <div class="form">
          <label class="field">
            <span>Tasks, as JSON</span>
            <textarea
              value={plan}
              spellcheck={false}
              placeholder={'[{"id": "a", "type": "count", "input": {"n": 1}}, {"id": "b", "depends_on": ["a"]}]'}
              onInput={(event) => setPlan(event.currentTarget.value)}
            />
          </label>
          <div class="row">
            {([StepKind.REFLECT, StepKind.SYNTHESIZE] as const).map((kind) => (
              <label class="field check" key={kind}>
                <input type="checkbox" checked={stages.includes(kind)} onChange={() => toggle(kind)} />
                <span>{kind === StepKind.REFLECT ? "Reflect after it" : "Synthesize a result"}</span>
              </label>
            ))}
          </div>
        </div>
      </details>
      <details>
        <summary>Labels and budget</summary>
        <div class="form">
          <Text label="Labels: key=value, one after the other" value={labels} set={setLabels} />
          <div class="two">
            {PARTS.map(([name, label]) => (
              <Text
                key={name}
                label={label}
                value={limits[name] ?? ""}
                set={(value) => setLimits({ ...limits, [name]: value })}
              />
            ))}
          </div>
        </div>
      </details>
      <Problems of={failed} />
      <div class="buttons">
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Starting …" : "Start"}
        </button>
      </div>
    </form>
  );
}

const PARTS = [
  ["inputTokens", "Tokens in"],
  ["outputTokens", "Tokens out"],
  ["costMicros", "Cost, in millionths of the currency unit"],
  ["tasks", "Tasks"],
  ["iterations", "Iterations"],
  ["wall", "Time, in seconds"],
] as const;

function Text(props: { label: string; value: string; set: (value: string) => void; list?: string }) {
  return (
    <label class="field">
      <span>{props.label}</span>
      <input list={props.list} value={props.value} onInput={(event) => props.set(event.currentTarget.value)} />
    </label>
  );
}

function labelsOf(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const [, key, value] = /^([^=]+)=(.*)$/.exec(part) ?? [];
    if (key === undefined || value === undefined) throw new Error(`Labels: ${part} is not key=value`);
    found[key] = value;
  }
  return found;
}

function budgetOf(limits: Record<string, string>) {
  const found: Partial<Record<(typeof PARTS)[number][0], bigint>> = {};
  for (const [name, label] of PARTS) {
    const text = limits[name]?.trim();
    if (!text) continue;
    if (!/^[0-9]+$/.test(text)) throw new Error(`${label}: ${text} is no whole number`);
    found[name] = BigInt(text);
  }
  const { wall, ...counts } = found;
  return { ...counts, ...(wall === undefined ? {} : { wall: { seconds: wall, nanos: 0 } }) };
}
