// What the list of runs is filtered by, and which columns it has.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Counts, COUNTED_MAX } from "../api/counts.ts";
import type { RunList } from "../api/runs.ts";
import { BlockedKind, RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { type Column, COLUMNS, isColumns } from "../model/columns.ts";
import { listSnippets } from "../model/snippets.ts";
import { word } from "../model/text.ts";
import { CopyAs } from "../ui/copyAs.tsx";
import { kept } from "../ui/kept.ts";
import { useKeys } from "../ui/keyboard.ts";
import { BASE, setQuery, useRoute } from "../ui/router.ts";
import { useChanges, useValue } from "../ui/store.ts";

export const STATUSES = [
  RunStatus.QUEUED,
  RunStatus.RUNNING,
  RunStatus.WAITING,
  RunStatus.PAUSED,
  RunStatus.SUCCEEDED,
  RunStatus.FAILED,
  RunStatus.CANCELLED,
];

export const CAUSES = [
  BlockedKind.WORKER,
  BlockedKind.CAPACITY,
  BlockedKind.QUESTION,
  BlockedKind.BUDGET,
  BlockedKind.TIMER,
  BlockedKind.PAUSED,
  BlockedKind.UNKNOWN_OUTCOME,
  BlockedKind.KEY,
  BlockedKind.SIGNAL,
  BlockedKind.CHILD,
];

interface SavedFilter {
  name: string;
  query: string;
}

function areFilters(value: unknown): value is SavedFilter[] {
  const isText = (one: unknown) => typeof one === "string";
  return Array.isArray(value) && value.every((one: Partial<SavedFilter> | null) => isText(one?.name) && isText(one?.query));
}

/** The columns that one has chosen. */
export const columns = kept<Column[]>("columns", [], isColumns);
const saved = kept<SavedFilter[]>("filters", [], areFilters);

interface FilterProps {
  text: string;
  pipeline: string;
  statuses: string;
  causes: string;
  list: RunList | undefined;
}

export function Filters(props: FilterProps) {
  const counts = useMemo(() => new Counts(), [props.list]);
  useEffect(() => props.list && counts.start(props.list), [counts]);
  useChanges(counts);
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  const typed = useRef<Record<string, string>>({});
  // What is typed at last must not reach the address of another page.
  useEffect(() => () => clearTimeout(timer.current), []);
  useKeys({ "/": () => field.current?.focus() });
  const chosen = new Set(props.statuses.split(",").filter(Boolean));
  const toggle = (name: string) => {
    if (!chosen.delete(name)) chosen.add(name);
    setQuery({ status: [...chosen].join(",") });
  };
  const later = (changes: Record<string, string>) => {
    Object.assign(typed.current, changes);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setQuery(typed.current);
      typed.current = {};
    }, 250) as unknown as number;
  };
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <input
        ref={field}
        type="search"
        aria-label="Search runs"
        placeholder="Search: id, words of the goal, label=value    ( / )"
        defaultValue={props.text}
        onInput={(event) => later({ q: event.currentTarget.value })}
      />
      <div class="chips" role="group" aria-label="Status">
        {STATUSES.map((one) => {
          const name = RunStatus[one];
          return (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={chosen.has(name)}
              onClick={() => toggle(name)}
            >
              <i class={`dot run-${word(RunStatus, one)}`} /> {word(RunStatus, one)} <Count of={counts.found.get(one)} />
            </button>
          );
        })}
      </div>
      <select
        aria-label="Waits for"
        value={props.causes}
        onChange={(event) => setQuery({ blocked: event.currentTarget.value })}
      >
        <option value="">waits for: anything</option>
        {CAUSES.map((one) => (
          <option key={one} value={BlockedKind[one]}>
            waits for: {word(BlockedKind, one)}
          </option>
        ))}
      </select>
      <input
        class="pipeline"
        aria-label="Pipeline"
        placeholder="Pipeline"
        defaultValue={props.pipeline}
        onInput={(event) => later({ pipeline: event.currentTarget.value.trim() })}
      />
      <div class="row menus">
        <Saved />
        <Columns />
        {props.list && <CopyAs of={listed(props.list)} />}
      </div>
    </form>
  );
}

/** The list as a command. Words of goals are looked for in the page only. */
function listed({ filter }: RunList) {
  const { pipelineId, labels } = filter;
  return listSnippets(location.origin + BASE, { statuses: filter.statuses.map((one) => RunStatus[one]), pipelineId, labels });
}

function Count({ of }: { of: number | undefined }) {
  if (!of) return null;
  return <b class="count">{of >= COUNTED_MAX ? `${COUNTED_MAX - 1}+` : of}</b>;
}

function Columns() {
  const extra = useValue(columns);
  const toggle = (one: Column) =>
    columns.set(COLUMNS.filter((other) => (other === one ? !extra.includes(one) : extra.includes(other))));
  return (
    <details class="menu">
      <summary>Columns</summary>
      <div class="card stack">
        {COLUMNS.map((one) => (
          <label class="field check" key={one}>
            <input type="checkbox" checked={extra.includes(one)} onChange={() => toggle(one)} />
            <span>{one}</span>
          </label>
        ))}
      </div>
    </details>
  );
}

/** Filters that this browser keeps under names. */
function Saved() {
  const filters = useValue(saved);
  const { query } = useRoute();
  const [name, setName] = useState("");
  const current = query.toString();
  const save = () => {
    const named = name.trim();
    if (!named || !current) return;
    saved.set([...filters.filter((one) => one.name !== named), { name: named, query: current }]);
    setName("");
  };
  return (
    <details class="menu">
      <summary>Filters</summary>
      <div class="card stack">
        {!filters.length && <small>Choose a filter, give it a name, and it is kept in this browser.</small>}
        {filters.map((one) => (
          <div class="row" key={one.name}>
            <a href={`/runs?${one.query}`} class="grow">
              {one.name}
            </a>
            <button
              type="button"
              class="small"
              aria-label={`Forget ${one.name}`}
              onClick={() => saved.set(filters.filter((other) => other !== one))}
            >
              ✕
            </button>
          </div>
        ))}
        <div class="row">
          <input aria-label="Name of this filter" placeholder="Name" value={name} onInput={(event) => setName(event.currentTarget.value)} />
          <button type="button" class="small" disabled={!current || !name.trim()} onClick={save}>
            Save this filter
          </button>
        </div>
      </div>
    </details>
  );
}
