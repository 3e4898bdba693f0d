// The sign that a view shows one task only, which a click takes away.
import { setQuery } from "../ui/router.ts";

export function TaskFilter({ taskId }: { taskId: string }) {
  if (!taskId) return null;
  return (
    <button type="button" class="chip" aria-pressed="true" onClick={() => setQuery({ task: "" })}>
      task {taskId} ✕
    </button>
  );
}
