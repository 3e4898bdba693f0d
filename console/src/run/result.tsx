// What a run came to: its own result, or those of its tasks.
import { useState } from "preact/hooks";
import { api, type Problem, problem } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import type { ListResultsResponse, Result } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { Empty, Problems, TaskMark, useLoad } from "../ui/parts.tsx";
import { PayloadView } from "../ui/payload.tsx";
import { setQuery } from "../ui/router.ts";
import { FailureView } from "./attempt.tsx";

const PAGE = 50;

export function ResultTab({ store }: { store: RunStore; taskId: string }) {
  const { run } = store.view!;
  const settled = `${run.status}/${run.counts?.completed}/${run.counts?.failed}`;
  const first = useLoad(settled, () => api.listResults({ runId: store.runId, pageSize: PAGE }));
  const [more, setMore] = useState<ListResultsResponse[]>([]);
  const [failed, setFailed] = useState<Problem>();
  if (first.problem) return <Problems of={first.problem} />;
  if (!first.value) return <Empty>Reading the results …</Empty>;
  const all = [first.value, ...more];
  const token = all.at(-1)!.nextPageToken;
  const readMore = async () => {
    try {
      const page = await api.listResults({ runId: store.runId, pageSize: PAGE, pageToken: token });
      setMore([...more, page]);
    } catch (error) {
      setFailed(problem(error));
    }
  };
  const { runResult } = first.value;
  const results = all.flatMap((one) => one.results);
  if (!runResult && !results.length) return <Empty>Nothing has come of it yet.</Empty>;
  return (
    <div class="fill scroll-y stack">
      {runResult && (
        <section>
          <h3>The run's result</h3>
          <ResultView runId={store.runId} result={runResult} name="result" />
        </section>
      )}
      <h3>{run.status === RunStatus.SUCCEEDED && !runResult ? "The run's result: its tasks'" : "Results of tasks"}</h3>
      {results.map((one) => (
        <section key={one.taskId + one.executionId}>
          <div class="row">
            <button type="button" class="link" onClick={() => setQuery({ task: one.taskId })}>
              {one.taskId}
            </button>
            <TaskMark status={one.status} />
          </div>
          <FailureView failure={one.failure} />
          <ResultView runId={store.runId} result={one} name={one.taskId} />
        </section>
      ))}
      <Problems of={failed} />
      {token && (
        <button type="button" onClick={() => void readMore()}>
          More results
        </button>
      )}
    </div>
  );
}

/** A result; one that found no room in the message is read when it is asked for. */
function ResultView({ runId, result, name }: { runId: string; result: Result; name: string }) {
  const [read, setRead] = useState<Result>();
  const [failed, setFailed] = useState<Problem>();
  const payload = result.payload ?? read?.payload;
  if (payload) return <PayloadView payload={payload} name={name} />;
  if (failed) return <Problems of={failed} />;
  if (!result.byReference) return null;
  const show = async () => {
    try {
      const executionIds = [result.executionId];
      setRead((await api.listResults({ runId: result.runId || runId, executionIds })).results[0]);
    } catch (error) {
      setFailed(problem(error));
    }
  };
  return (
    <button type="button" class="small" onClick={() => void show()}>
      Show it
    </button>
  );
}
