// The conversations of a run's tasks.
import { useMemo } from "preact/hooks";
import { api, pages } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import type { Message } from "../gen/stepwell/v1/types_pb.ts";
import { number } from "../model/text.ts";
import { Empty, Problems, useLoad } from "../ui/parts.tsx";
import { TextView } from "../ui/payload.tsx";
import { runPath } from "../ui/router.ts";
import { TaskFilter } from "./filter.tsx";

const MESSAGES_MAX = 2_000;

export function MessagesTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const view = store.view!;
  const key = useMemo(() => {
    let total = 0;
    for (const task of view.tasks.values()) if (!taskId || task.taskId === taskId) total += task.messages;
    return `${taskId}/${total}`;
  }, [store.changes, taskId]);
  const { value, problem } = useLoad(key, async () => {
    const found: Message[] = [];
    const list = (pageToken: string) => api.listMessages({ runId: store.runId, taskId, pageSize: 1_000, pageToken });
    for await (const page of pages(list)) {
      found.push(...page.messages);
      if (found.length >= MESSAGES_MAX) break;
    }
    return found;
  });
  if (problem) return <Problems of={problem} />;
  if (!value) return <Empty>Reading the messages …</Empty>;
  if (!value.length) return <Empty>No task has written a message.</Empty>;
  const byTask = Map.groupBy(value, (one) => one.taskId);
  return (
    <div class="fill scroll-y stack">
      <div>
        <TaskFilter taskId={taskId} />
      </div>
      {value.length >= MESSAGES_MAX && <small>The first {number(value.length)} messages.</small>}
      {[...byTask].map(([task, messages]) => (
        <section key={task} class="conversation">
          <h3>
            <a href={runPath(store.runId, "tasks", { task })}>{task}</a>
          </h3>
          {messages.map((one) => (
            <Said key={`${one.taskId}/${one.number}`} message={one} />
          ))}
        </section>
      ))}
    </div>
  );
}

function Said({ message }: { message: Message }) {
  const role = message.role.toLowerCase();
  const side = role === "user" ? "user" : role === "assistant" ? "assistant" : "other";
  const session = message.session?.sessionId ? ` · ${message.session.backend} ${message.session.sessionId}` : "";
  return (
    <article class={`said ${side}`}>
      <small>
        {message.role} · {number(message.number)}
        {session}
      </small>
      <TextView text={message.content} />
    </article>
  );
}
