// What the calls within steps recorded.
import { useEffect, useState } from "preact/hooks";
import { api, type Problem, problem } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { JournalMark, type Payload, type StoredEntry, View } from "../gen/stepwell/v1/types_pb.ts";
import { isEnded } from "../model/words.ts";
import { bytes, moment, ms, number, span, spanMs } from "../model/text.ts";
import { Empty, Problems, Time } from "../ui/parts.tsx";
import { PayloadView } from "../ui/payload.tsx";
import { FailureView } from "./attempt.tsx";
import { TaskFilter } from "./filter.tsx";

/** Entries are no events: a run that goes on is asked for new ones so often. */
const ASK_MS = 2_000;

export function JournalTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const [entries, setEntries] = useState<StoredEntry[]>();
  const [failed, setFailed] = useState<Problem>();
  const ended = isEnded(store.view!.run);
  useEffect(() => {
    let wanted = true;
    let pageToken = "";
    let timer: ReturnType<typeof setTimeout>;
    const found: StoredEntry[] = [];
    const read = async () => {
      try {
        for (;;) {
          const page = await api.listJournal({ runId: store.runId, taskId, pageSize: 1_000, pageToken });
          if (!wanted) return;
          found.push(...page.entries);
          pageToken = page.nextPageToken || page.resumeToken;
          if (!page.nextPageToken) break;
        }
        setEntries([...found]);
        setFailed(undefined);
      } catch (error) {
        if (wanted) setFailed(problem(error));
      }
      if (wanted && !ended) timer = setTimeout(() => void read(), ASK_MS);
    };
    void read();
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [store.runId, taskId, ended]);
  if (failed && !entries) return <Problems of={failed} />;
  if (!entries) return <Empty>Reading the journal …</Empty>;
  if (!entries.length) return <Empty>{taskId || "No step"} has recorded {taskId ? "no" : "a"} call.</Empty>;
  const journals = Map.groupBy(entries, (one) => one.journal);
  return (
    <div class="fill scroll-y stack">
      <div>
        <TaskFilter taskId={taskId} />
      </div>
      {[...journals].map(([journal, list]) => (
        <section key={journal}>
          <h3>
            {journal} <small>entries: {number(list.length)}</small>
          </h3>
          <ul class="journal">
            {list.map((one) => (
              <Entry key={nameOf(one)} runId={store.runId} stored={one} />
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

function nameOf({ journal, generation, entry }: StoredEntry): string {
  return JSON.stringify([journal, String(generation), entry?.key, entry?.mark, String(entry?.number)]);
}

const MARKS: Record<JournalMark, string> = {
  [JournalMark.UNSPECIFIED]: "done",
  [JournalMark.END]: "done",
  [JournalMark.BEGIN]: "begun",
  [JournalMark.TRY]: "failed try",
  [JournalMark.WAIT]: "waits",
};

function Entry({ runId, stored }: { runId: string; stored: StoredEntry }) {
  const entry = stored.entry!;
  const [value, setValue] = useState<Payload>();
  const [failed, setFailed] = useState<Problem>();
  const show = async () => {
    try {
      setValue(await readValue(runId, stored));
    } catch (error) {
      setFailed(problem(error));
    }
  };
  const tone = entry.mark === JournalMark.TRY ? "failed" : entry.mark === JournalMark.BEGIN ? "blocked" : "completed";
  const until = ms(stored.untilTime);
  return (
    <li>
      <div class="row">
        <span class={`mark task-${tone}`}>{MARKS[entry.mark]}</span>
        <b>{entry.name || entry.key}</b>
        <code>{entry.key}</code>
        {entry.number > 0 && <small>try {number(entry.number)}</small>}
        {stored.generation > 1 && <small>generation {number(stored.generation)}</small>}
        {entry.took && <small>{span(spanMs(entry.took))}</small>}
        {until > 0 && <small>until {moment(until)}</small>}
        <small>
          <Time at={ms(stored.writtenTime)} />
        </small>
        {stored.size > 0n && !value && (
          <button type="button" class="small" onClick={() => void show()}>
            Show {bytes(Number(stored.size))}
          </button>
        )}
      </div>
      <Problems of={failed} />
      <FailureView failure={entry.failure} />
      {value && <PayloadView payload={value} name={entry.name || "entry"} />}
    </li>
  );
}

/** Reads one entry's value: with values the server returns as many entries as fit into a page. */
async function readValue(runId: string, stored: StoredEntry): Promise<Payload | undefined> {
  const wanted = nameOf(stored);
  let pageToken = "";
  do {
    const page = await api.listJournal({
      runId,
      journal: stored.journal,
      executionId: stored.executionId,
      view: View.FULL,
      pageToken,
    });
    const found = page.entries.find((one) => nameOf(one) === wanted);
    if (found) return found.entry?.value;
    pageToken = page.nextPageToken;
  } while (pageToken);
  return undefined;
}
