// The workers and queues of the service, read every few seconds while the page is looked at.
import { api } from "../api/client.ts";
import type { ConnectedWorker, ListQueuesResponse, ListWorkersResponse, Queue } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { visible } from "../model/strange.ts";
import { count, ms, number, shortId } from "../model/text.ts";
import { Empty, Problems, Time, useLoad, useNow } from "../ui/parts.tsx";
import { runPath } from "../ui/router.ts";

const READ_EVERY_MS = 5_000;
const PAGE_SIZE = 200;
const STEPS_SHOWN = 5;

interface Found {
  workers: ListWorkersResponse;
  queues: ListQueuesResponse;
}

export function Connected() {
  // The clock stands still in a hidden tab, so nothing is read there.
  const turn = Math.floor(useNow() / READ_EVERY_MS);
  const read = useLoad(`connected ${turn}`, async (): Promise<Found> => {
    const [workers, queues] = await Promise.all([
      api.listWorkers({ pageSize: PAGE_SIZE }),
      api.listQueues({ pageSize: PAGE_SIZE }),
    ]);
    return { workers, queues };
  });
  const found = read.value;
  return (
    <>
      <Problems of={read.problem} />
      {found && <Workers found={found.workers} />}
      {found && <Queues found={found.queues} />}
    </>
  );
}

function Workers({ found }: { found: ListWorkersResponse }) {
  return (
    <section class="card stack">
      <h2>Workers</h2>
      {!found.workers.length && <Empty>
          No worker is connected, so no step runs. Start one with <code>stepwell worker agent:agent</code>; <code>stepwell up</code> has
          one of its own.
        </Empty>}
      {found.workers.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Workers">
          <table>
            <thead>
              <tr>
                <th>worker</th>
                <th>state</th>
                <th>does now</th>
                <th>free</th>
                <th>queues</th>
                <th>connected</th>
                <th>version</th>
                <th>by</th>
                <th>replica</th>
              </tr>
            </thead>
            <tbody>
              {found.workers.map((one) => (
                <tr key={one.workerId}>
                  <td>{one.workerId}</td>
                  <td>{state(one)}</td>
                  <td>
                    {one.heldCount ? <Held by={one} /> : "nothing"}
                  </td>
                  <td>{number(one.freeSlots)}</td>
                  <td>{one.queues.join(", ")}</td>
                  <td>
                    <Time at={ms(one.connectedTime)} />
                  </td>
                  <td>{one.version || <small>none given</small>}</td>
                  <td>{one.subject}</td>
                  <td>{shortId(one.replicaId)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.nextPageToken && <p>There are more: stepwell workers lists them all.</p>}
    </section>
  );
}

/** The word for what a worker does; it was silent if it let a lease run out. */
function state(one: ConnectedWorker): string {
  if (one.draining) return "draining";
  if (one.lapses) return "silent";
  return one.heldCount ? "busy" : "idle";
}

/** A step by its execution's id, as `task:count#1`, and its task where it is one. */
function stepOf(executionId: string): { step: string; task: string } {
  const [, task = ""] = /^task:(.*)#\d+$/.exec(executionId) ?? [];
  return { step: task || executionId.replace(/#\d+$/, ""), task };
}

/** What a worker does now. */
function Held({ by }: { by: ConnectedWorker }) {
  return (
    <ul class="plain-list">
      {by.held.slice(0, STEPS_SHOWN).map((one) => {
        const { step, task } = stepOf(one.executionId);
        return (
          <li key={one.executionId}>
            <a href={runPath(one.runId, task ? "tasks" : "", task ? { task } : {})}>{visible(step)}</a>{" "}
            <small>of {shortId(one.runId)}</small>
          </li>
        );
      })}
      {by.heldCount > STEPS_SHOWN && <li>and {number(by.heldCount - Math.min(by.held.length, STEPS_SHOWN))} more</li>}
    </ul>
  );
}

function Queues({ found }: { found: ListQueuesResponse }) {
  return (
    <section class="card stack">
      <h2>Queues</h2>
      {!found.queues.length && <Empty>
          No queue has a limit, a worker or a run that waits. A queue comes to be with the first worker that serves it, or the
          first run that is started in it.
        </Empty>}
      {found.queues.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Queues">
          <table>
            <thead>
              <tr>
                <th>queue</th>
                <th>at work</th>
                <th>limit</th>
                <th>workers</th>
                <th>waiting</th>
                <th>the first since</th>
              </tr>
            </thead>
            <tbody>
              {found.queues.map((one) => (
                <QueueRow key={one.name} queue={one} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!found.complete && <p>There is more than was looked at: the numbers are the least that there are.</p>}
      {found.nextPageToken && <p>There are more: stepwell queues lists them all.</p>}
    </section>
  );
}

function QueueRow({ queue }: { queue: Queue }) {
  return (
    <tr>
      <td>{queue.name}</td>
      <td>{number(queue.inUse)}</td>
      <td>{queue.limit === undefined ? "none" : number(queue.limit)}</td>
      <td>{number(queue.workers)}</td>
      <td>{count(queue.waitingRuns, "run")}</td>
      <td>
        <Time at={ms(queue.waitingSinceTime)} />
      </td>
    </tr>
  );
}
