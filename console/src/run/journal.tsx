// What the calls within steps recorded, nested as they were made.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type Problem, problem } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { type Payload, type StoredEntry, View } from "../gen/stepwell/v1/types_pb.ts";
import { type Call, calls, type CallState, stateOf, used } from "../model/calls.ts";
import { isEnded } from "../model/words.ts";
import { bytes, cost, count, decode, firstLine, moment, ms, number, span, spanMs } from "../model/text.ts";
import { Foreign } from "../ui/foreign.tsx";
import { Empty, Problems, Time, useNow } from "../ui/parts.tsx";
import { PayloadView } from "../ui/payload.tsx";
import { FailureView } from "./attempt.tsx";
import { TaskFilter } from "./filter.tsx";

/** Entries are no events: a run that goes on is asked for new ones so often. */
const ASK_MS = 2_000;
/** So many bytes of values are read with the entries; the others are read one by one, when they are asked for. */
const VALUES_MAX = 2 * 1_048_576;
/** Values up to here are open from the beginning, and those up to there stand beside the call. */
const OPEN_MAX = 2_048;
const INLINE_MAX = 140;
const CALLS_SHOWN = 200;
const INNER_OPEN = 30;

export function JournalTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const ended = isEnded(store.view!.run);
  const { entries, failed } = useEntries(store.runId, taskId, ended);
  const journals = useMemo(
    () => Map.groupBy(entries ?? [], (one) => `${one.journal}${one.generation > 1 ? `, generation ${one.generation}` : ""}`),
    [entries],
  );
  if (failed && !entries) return <Problems of={failed} />;
  if (!entries) return <Empty>Reading the journal …</Empty>;
  if (!entries.length) return <Empty>{taskId || "No step"} has recorded {taskId ? "no" : "a"} call.</Empty>;
  return (
    <div class="fill scroll-y stack">
      {taskId && (
        <div>
          <TaskFilter taskId={taskId} />
        </div>
      )}
      {[...journals].map(([name, list]) => (
        <Journal key={name} name={name} list={list} store={store} />
      ))}
    </div>
  );
}

/** Reads the entries, and later those that are written later. */
function useEntries(runId: string, taskId: string, ended: boolean) {
  const [entries, setEntries] = useState<StoredEntry[]>();
  const [failed, setFailed] = useState<Problem>();
  useEffect(() => {
    let wanted = true;
    let pageToken = "";
    let values = VALUES_MAX;
    let timer: ReturnType<typeof setTimeout>;
    const found: StoredEntry[] = [];
    const read = async () => {
      const before = found.length;
      try {
        for (;;) {
          const view = values > 0 ? View.FULL : View.BASIC;
          const page = await api.listJournal({ runId, taskId, pageSize: 1_000, pageToken, view });
          if (!wanted) return;
          found.push(...page.entries);
          for (const one of page.entries) values -= Number(one.size);
          pageToken = page.nextPageToken || page.resumeToken;
          if (!page.nextPageToken) break;
        }
        setEntries((shown) => (shown && found.length === before ? shown : [...found]));
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
  }, [runId, taskId, ended]);
  return { entries, failed };
}

function Journal({ name, list, store }: { name: string; list: StoredEntry[]; store: RunStore }) {
  const [shown, setShown] = useState(CALLS_SHOWN);
  const found = useMemo(() => calls(list), [list]);
  const [, taskId] = /^task:(.*)@\d+/.exec(name) ?? [];
  const title = taskId && store.view!.specs.get(taskId)?.title;
  return (
    <section>
      <h3>
        {title ? <Foreign text={title} /> : name} <small>{title ? `${name}, ` : ""}{count(found.length, "call")}</small>
      </h3>
      <ul class="journal">
        {found.slice(0, shown).map((one) => (
          <CallView key={one.key} call={one} runId={store.runId} />
        ))}
      </ul>
      {found.length > shown && (
        <button type="button" class="small" onClick={() => setShown(shown + CALLS_SHOWN)}>
          Show more of {number(found.length)} calls
        </button>
      )}
    </section>
  );
}

const TONES: Record<CallState, string> = {
  done: "completed",
  slept: "completed",
  sleeps: "blocked",
  begun: "blocked",
  failed: "failed",
  open: "running",
};

function CallView({ call, runId }: { call: Call; runId: string }) {
  const now = useNow();
  const [all, setAll] = useState(call.inner.length <= INNER_OPEN);
  const { end, wait, tries } = call;
  const state = stateOf(call, now);
  const { tokens, costMicros } = used(call);
  const took = spanMs(end?.entry?.took);
  const last = end ?? wait ?? tries.at(-1) ?? call.begun;
  const facts = [
    took ? span(took) : "",
    state === "sleeps" || state === "slept" ? `until ${moment(ms(wait?.untilTime))}` : "",
    tries.length ? `${number(tries.length)} failed ${tries.length > 1 ? "tries" : "try"}` : "",
    tokens ? count(tokens, "token") : "",
    costMicros ? `cost ${cost(costMicros)}` : "",
  ];
  return (
    <li>
      <div class="row">
        {call.scope ? <span class="quiet">within</span> : <span class={`mark task-${TONES[state]}`}>{state}</span>}
        <b>
          <Foreign text={call.name} />
        </b>
        {call.own && call.own !== call.name && (
          <code>
            <Foreign text={call.own} />
          </code>
        )}
        {call.number > 1 && <small title="calls of this name with these arguments">call {number(call.number)}</small>}
        {facts.filter(Boolean).map((one) => (
          <small key={one}>{one}</small>
        ))}
        {last && (
          <small>
            <Time at={ms(last.writtenTime)} />
          </small>
        )}
        <code class="quiet hash" title={`key: ${call.key}`}>
          {call.digest.slice(0, 8)}
        </code>
      </div>
      {tries.map((one) => (
        <details key={one.entry!.number}>
          <summary>
            try {number(one.entry!.number)} failed:{" "}
            <Foreign text={firstLine(`${one.entry!.failure?.kind}: ${one.entry!.failure?.message}`, 100)} />
          </summary>
          <FailureView failure={one.entry!.failure} />
        </details>
      ))}
      {call.inner.length > 0 &&
        (all ? (
          <ul class="journal inner">
            {call.inner.map((one) => (
              <CallView key={one.key} call={one} runId={runId} />
            ))}
          </ul>
        ) : (
          <button type="button" class="small" onClick={() => setAll(true)}>
            Show {count(call.inner.length, "call")} within it
          </button>
        ))}
      {end && <Value stored={end} runId={runId} />}
    </li>
  );
}

/** A value: short ones are open, others are shown when they are asked for. */
function Value({ stored, runId }: { stored: StoredEntry; runId: string }) {
  const entry = stored.entry!;
  const [read, setRead] = useState<Payload>();
  const [asked, setAsked] = useState(false);
  const [failed, setFailed] = useState<Problem>();
  const size = Number(stored.size);
  const value = read ?? entry.value;
  if (!size) return null;
  if (!asked && (size > OPEN_MAX || !value)) {
    const show = async () => {
      try {
        if (!value) setRead(await readValue(runId, stored));
        setAsked(true);
      } catch (error) {
        setFailed(problem(error));
      }
    };
    return (
      <>
        <button type="button" class="small" onClick={() => void show()}>
          Show {bytes(size)}
        </button>
        <Problems of={failed} />
      </>
    );
  }
  if (!value) return null;
  const text = size <= INLINE_MAX ? decode(value.data) : undefined;
  if (text !== undefined && !text.includes("\n")) {
    return (
      <code class="value">
        <Foreign text={text} />
      </code>
    );
  }
  return <PayloadView payload={value} name={entry.name || "entry"} />;
}

/** Reads one entry's value: with values the server returns as many entries as fit into a page. */
async function readValue(runId: string, stored: StoredEntry): Promise<Payload | undefined> {
  let pageToken = "";
  do {
    const page = await api.listJournal({
      runId,
      journal: stored.journal,
      executionId: stored.executionId,
      view: View.FULL,
      pageToken,
    });
    const found = page.entries.find(
      ({ generation, entry }) =>
        generation === stored.generation && entry?.key === stored.entry!.key && entry.mark === stored.entry!.mark,
    );
    if (found) return found.entry?.value;
    pageToken = page.nextPageToken;
  } while (pageToken);
  return undefined;
}
