// The signals that a run keeps until a step receives them, and a form that sends one.
import { useRef, useState } from "preact/hooks";
import { api, type Problem, problem, requestId } from "../api/client.ts";
import type { RunStore } from "../api/runStore.ts";
import { may } from "../api/session.ts";
import { type KeptSignal, View } from "../gen/stepwell/v1/types_pb.ts";
import { emptyEntry } from "../model/schema.ts";
import { visible } from "../model/strange.ts";
import { ms, number } from "../model/text.ts";
import { caller, isEnded } from "../model/words.ts";
import { SchemaFields, useSchemaForm } from "../ui/form.tsx";
import { Empty, Problems, Time, useLoad } from "../ui/parts.tsx";
import { PayloadView } from "../ui/payload.tsx";

const PAGE = 100;

export function SignalsTab({ store }: { store: RunStore }) {
  const { run } = store.view!;
  const ended = isEnded(run);
  const [pages, setPages] = useState(1);
  const { value, problem } = useLoad(`${run.version}/${pages}`, () => read(store.runId, pages));
  return (
    <div class="fill scroll-y stack">
      {may("run:write") && !ended && <Send key={run.spec!.runId} store={store} />}
      <Problems of={problem} />
      {!value && !problem && <Empty>Reading the signals …</Empty>}
      {value?.signals.length === 0 && <Empty>The run keeps no signal that a step hasn't received.</Empty>}
      {value?.signals.map((one) => (
        <Kept key={String(one.number)} signal={one} />
      ))}
      {value?.more && (
        <button type="button" onClick={() => setPages(pages + 1)}>
          More signals
        </button>
      )}
    </div>
  );
}

/** Reads the oldest signals, so many pages of them, and whether there are more. */
async function read(runId: string, pages: number): Promise<{ signals: KeptSignal[]; more: boolean }> {
  const signals: KeptSignal[] = [];
  let pageToken = "";
  for (let at = 0; at < pages; at++) {
    const page = await api.listSignals({ runId, view: View.FULL, pageSize: PAGE, pageToken });
    signals.push(...page.signals);
    pageToken = page.nextPageToken;
    if (!pageToken) break;
  }
  return { signals, more: Boolean(pageToken) };
}

function Kept({ signal }: { signal: KeptSignal }) {
  const { name, value } = signal;
  return (
    <section class="card">
      <div class="row">
        <b>{visible(name)}</b>
        <small>
          {number(signal.number)} · from {caller(signal.actor, signal.onBehalfOf)}, <Time at={ms(signal.sentTime)} />
        </small>
      </div>
      {value?.data.length ? <PayloadView payload={value} name={name} /> : <small>no value</small>}
    </section>
  );
}

function Send({ store }: { store: RunStore }) {
  const [name, setName] = useState("");
  const [failed, setFailed] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const form = useSchemaForm("");
  // The same signal, sent again after a lost answer, is the same request; after an answer it is another one.
  const last = useRef({ fields: "", id: "" });
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    try {
      const json = form.text();
      const fields = JSON.stringify([name, json]);
      if (last.current.fields !== fields) last.current = { fields, id: requestId() };
      setBusy(true);
      const value = json ? { value: { data: new TextEncoder().encode(json) } } : {};
      const { run } = await api.sendSignal({ runId: store.runId, name: name.trim(), ...value, requestId: last.current.id });
      last.current = { fields: "", id: "" };
      setFailed(undefined);
      setName("");
      form.setEntry(emptyEntry(form.field));
      store.commanded(run);
    } catch (error) {
      const own = error instanceof Error && error.name === "Error";
      setFailed(own ? { reason: "", message: error.message, faults: [] } : problem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="form" aria-label="Send a signal" onSubmit={(event) => void submit(event)}>
      <label class="field">
        <span>Name of the signal</span>
        <input value={name} required maxLength={128} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <SchemaFields form={form} label="Value (optional)" />
      <div>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Sending …" : "Send the signal"}
        </button>
      </div>
      <Problems of={failed} />
    </form>
  );
}
