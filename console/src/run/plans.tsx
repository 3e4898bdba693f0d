// The revisions of a run's plan, with their differences, and its named checkpoints.
import { api, pages } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import type { Checkpoint } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { EventType, type Plan, PlanTrigger, View } from "../gen/stepwell/v1/types_pb.ts";
import { planChanges, type Sign, type TaskChange } from "../model/changes.ts";
import { count, firstLine, ms, number, shortId, word } from "../model/text.ts";
import { runTitle, taskCounts } from "../model/words.ts";
import { Empty, Problems, StatusPill, Time, useLoad } from "../ui/parts.tsx";
import { comparePath, runPath } from "../ui/router.ts";

const CHANGES_MAX = 200;

export const SIGN_WORDS: Record<Sign, string> = { "=": "same", "~": "changed", "+": "added", "-": "removed" };

export function PlansTab({ store }: { store: RunStore; taskId: string }) {
  const { run } = store.view!;
  const plans = useLoad(`plans ${run.planRevision}`, async () => {
    const found: Plan[] = [];
    const list = (pageToken: string) => api.listPlans({ runId: store.runId, view: View.FULL, pageToken });
    for await (const page of pages(list)) found.push(...page.plans);
    return found;
  });
  const key = `checkpoints ${run.planRevision} ${run.iteration} ${run.status}`;
  const checkpoints = useLoad(key, async () => {
    const found: Checkpoint[] = [];
    const list = (pageToken: string) => api.listCheckpoints({ runId: store.runId, pageToken });
    for await (const page of pages(list)) found.push(...page.checkpoints);
    return found;
  });
  const problem = plans.problem ?? checkpoints.problem;
  if (problem) return <Problems of={problem} />;
  if (!plans.value) return <Empty>Reading the plans …</Empty>;
  const byRevision = new Map(plans.value.map((one) => [one.revision, one]));
  return (
    <div class="fill scroll-y stack">
      {!plans.value.length && <Empty>There is no plan yet.</Empty>}
      {plans.value.toReversed().map((plan) => (
        <PlanView key={String(plan.revision)} plan={plan} before={byRevision.get(plan.parentRevision)} />
      ))}
      <section>
        <h3>Checkpoints</h3>
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>version</th>
                <th>what</th>
                <th>then</th>
                <th>when</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {checkpoints.value?.map((one) => (
                <tr key={String(one.event)}>
                  <td>{number(one.version)}</td>
                  <td>
                    {word(EventType, one.type)} <small>{firstLine(one.message)}</small>
                  </td>
                  <td>{one.run && taskCounts(one.run)}</td>
                  <td>
                    <Time at={ms(one.time)} />
                  </td>
                  <td>
                    <a href={runPath(store.runId, "fork", { at: String(one.version) })}>fork from here</a>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <Forks runId={store.runId} />
    </div>
  );
}

const FORKS_MAX = 100;

/** The newest forks of a run. */
function Forks({ runId }: { runId: string }) {
  const { value } = useLoad(`forks ${runId}`, () => api.listRuns({ parentRunId: runId, pageSize: FORKS_MAX }));
  if (!value?.runs.length) return null;
  return (
    <section>
      <h3>Forks of this run</h3>
      <ul class="changes">
        {value.runs.map((one) => {
          const id = one.spec!.runId;
          return (
            <li key={id} class="row">
              <StatusPill status={one.status} />
              <a href={runPath(id)}>
                {shortId(id)} {runTitle(one)}
              </a>
              <small>from version {number(one.spec!.parentVersion)}</small>
              <a href={comparePath(runId, id)}>compare</a>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function PlanView({ plan, before }: { plan: Plan; before: Plan | undefined }) {
  const changes = before ? planChanges(before, plan) : [];
  const carried = new Set(plan.carried);
  return (
    <section class="plan">
      <h3>
        Plan {number(plan.revision)} <small>{word(PlanTrigger, plan.trigger)}, iteration {number(plan.iteration)}</small>
      </h3>
      {plan.reason && <p>{plan.reason}</p>}
      <p class="quiet">
        {count(plan.tasks.length, "task")}
        {carried.size > 0 && `, ${number(carried.size)} carried over as they stood`} · accepted{" "}
        <Time at={ms(plan.createdTime)} />
      </p>
      {before &&
        (changes.length ? (
          <details open>
            <summary>
              {count(changes.length, "difference")} from plan {number(before.revision)}
            </summary>
            <ul class="changes">
              {changes.slice(0, CHANGES_MAX).map((one) => (
                <ChangeLine key={one.taskId} change={one} />
              ))}
            </ul>
            {changes.length > CHANGES_MAX && <small>and {number(changes.length - CHANGES_MAX)} more</small>}
          </details>
        ) : (
          <p class="quiet">The same tasks as plan {number(before.revision)}.</p>
        ))}
    </section>
  );
}

function ChangeLine({ change }: { change: TaskChange }) {
  const { sign, taskId, fields } = change;
  return (
    <li>
      <span class={`sign ${SIGN_WORDS[sign]}`}>{sign}</span> <a href={`?task=${encodeURIComponent(taskId)}`}>{taskId}</a>{" "}
      <small>
        {SIGN_WORDS[sign]}
        {fields.length > 0 && `: ${fields.join(", ")}`}
      </small>
    </li>
  );
}
