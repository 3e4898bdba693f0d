// A step that is no task's: a plan, a reflection or a synthesis, with its attempts.
import { useEffect } from "preact/hooks";
import { api } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { ExecutionStatus } from "../gen/stepwell/v1/types_pb.ts";
import { rows } from "../model/bars.ts";
import { Empty, Problems, useLoad } from "../ui/parts.tsx";
import { PayloadView } from "../ui/payload.tsx";
import { setQuery } from "../ui/router.ts";
import { Attempt } from "./attempt.tsx";

export function StepPanel({ store, step }: { store: RunStore; step: string }) {
  useEffect(() => {
    if (store.listed) void store.listExecutions();
  }, [store.listed]);
  const executions = rows(store.view!.executions.values())
    .filter((one) => one.id === step)
    .flatMap((one) => one.bars.map((bar) => bar.execution));
  const done = executions.find((one) => one.status === ExecutionStatus.COMPLETED && one.hasResult);
  const result = useLoad(done?.executionId ?? "", async () => {
    if (!done) return undefined;
    const { results } = await api.listResults({ runId: store.runId, executionIds: [done.executionId] });
    return results[0];
  });
  return (
    <aside class="panel card" aria-label={`Step ${step}`}>
      <div class="row">
        <h2>{step}</h2>
        <span class="grow" />
        <button type="button" class="small" aria-label="Close" onClick={() => setQuery({ step: "" })}>
          ✕
        </button>
      </div>
      {!executions.length && (
        <Empty>{store.executionsListed ? "There was no attempt at it yet." : "Reading the attempts …"}</Empty>
      )}
      {executions.toReversed().map((one) => (
        <Attempt key={one.executionId} store={store} execution={one} />
      ))}
      <Problems of={result.problem} />
      {result.value?.payload && (
        <section>
          <h3>Result</h3>
          <PayloadView payload={result.value.payload} name={done!.executionId} />
        </section>
      )}
    </aside>
  );
}
