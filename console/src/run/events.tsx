// The events of a run, each with what it changed.
import { useMemo, useState } from "preact/hooks";
import type { RunStore } from "../api/runStore.ts";
import { type Event, EventSchema, EventType } from "../gen/stepwell/v1/types_pb.ts";
import { lines } from "../model/changes.ts";
import { moment, ms, number, span, word } from "../model/text.ts";
import { caller, eventText, subject } from "../model/words.ts";
import { useKeys } from "../ui/keyboard.ts";
import { Empty } from "../ui/parts.tsx";
import { setQuery, useRoute } from "../ui/router.ts";
import { VirtualList } from "../ui/virtual.tsx";
import { TaskFilter } from "./filter.tsx";

export function EventsTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const { query } = useRoute();
  const chosen = query.get("event") ?? "";
  const [reading, setReading] = useState(false);
  const { events } = store.log;
  const shown = useMemo(
    () => (taskId ? events.filter((one) => one.taskId === taskId) : events.slice()),
    [store.changes, taskId],
  );
  const index = shown.findIndex((one) => String(one.number) === chosen);
  const move = (step: number) => {
    const next = shown[Math.max(0, Math.min(shown.length - 1, index < 0 ? shown.length - 1 : index + step))];
    if (next) setQuery({ event: String(next.number) });
  };
  useKeys({ j: () => move(1), k: () => move(-1), Escape: () => setQuery({ event: "", task: "" }) });
  const earlier = async () => {
    setReading(true);
    try {
      await store.earlier();
    } finally {
      setReading(false);
    }
  };
  if (!events.length) return <Empty>Reading the events …</Empty>;
  return (
    <>
      <div class="row tools">
        <TaskFilter taskId={taskId} />
        <small>
          {taskId ? `${number(shown.length)} of ` : ""}events {number(store.log.first)} to{" "}
          {number(store.log.last)}
        </small>
        {store.log.first > 1n && (
          <button type="button" class="small" disabled={reading} onClick={() => void earlier()}>
            {reading ? "Reading …" : "Read earlier ones"}
          </button>
        )}
      </div>
      <VirtualList
        label="Events"
        class="fill"
        count={shown.length}
        rowHeight={30}
        sticky
        reveal={index}
        keyOf={(at) => String(shown[at]!.number)}
        row={(at) => <EventRow store={store} event={shown[at]!} chosen={at === index} />}
      />
      {index >= 0 && <Delta event={shown[index]!} />}
    </>
  );
}

function EventRow({ store, event, chosen }: { store: RunStore; event: Event; chosen: boolean }) {
  const by = caller(event.actor, event.onBehalfOf);
  const since = ms(event.time) - ms(store.view!.run.createdTime);
  return (
    <button
      type="button"
      class={`event-row ${chosen ? "chosen" : ""}`}
      aria-expanded={chosen}
      onClick={() => setQuery({ event: chosen ? "" : String(event.number) })}
    >
      <code>{String(event.number)}</code>
      <small title={moment(ms(event.time))}>+{span(since)}</small>
      <b class="clip">{subject(store.view!, event)}</b>
      <span class="clip">
        {eventText(event)}
        {by && <small> (by {by})</small>}
      </span>
    </button>
  );
}

/** What an event changed, field by field. */
function Delta({ event }: { event: Event }) {
  const changes = useMemo(() => lines(EventSchema, event), [event]);
  return (
    <section class="delta" aria-label={`Event ${event.number}`}>
      <h3>
        {word(EventType, event.type)} <small>event {String(event.number)}, version {String(event.version)}</small>
      </h3>
      <dl class="facts mono">
        {changes.map((one) => (
          <>
            <dt>{one.path}</dt>
            <dd>{one.value}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}
