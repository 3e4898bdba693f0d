// The steps that a run waits for while their back-offs pass: why each failed, and when it is tried again.
import { useEffect } from "preact/hooks";
import type { RunStore } from "../api/runStore.ts";
import { begins, delayed, type Delayed } from "../model/retries.ts";
import { stepName } from "../model/runView.ts";
import { visible } from "../model/strange.ts";
import { count, moment, number } from "../model/text.ts";
import { failureLine } from "../model/words.ts";
import { useNow } from "../ui/parts.tsx";
import { runPath } from "../ui/router.ts";

const SHOWN_MAX = 3;

export function Delays({ store }: { store: RunStore }) {
  useEffect(() => {
    if (store.listed) void store.listExecutions();
  }, [store.listed]);
  const all = store.executionsListed ? delayed(store.view!.executions.values()) : [];
  const more = all.length - SHOWN_MAX;
  return (
    <>
      {all.slice(0, SHOWN_MAX).map((one) => (
        <Delay key={one.execution.executionId} store={store} of={one} />
      ))}
      {more > 0 && <div>{count(more, "step")} more</div>}
    </>
  );
}

function Delay({ store, of: { execution, failed, due } }: { store: RunStore; of: Delayed }) {
  const now = useNow();
  const { taskId, attempt } = execution;
  const step = stepName(execution);
  const title = store.view!.specs.get(taskId)?.title || step;
  const query: Record<string, string> = taskId ? { task: taskId } : { step };
  return (
    <div>
      <a href={runPath(store.runId, taskId ? "tasks" : "timeline", query)}>{visible(title)}</a>
      {failed && <> failed: {visible(failureLine(failed.failure))}</>}
      <span class="quiet" title={moment(due)}>
        {" "}
        · attempt {number(attempt)} begins {begins(due, now)}
      </span>
    </div>
  );
}
