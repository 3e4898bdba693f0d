// Small parts that all pages use.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { openQuestions } from "../api/badge.ts";
import { away, type Problem, problem } from "../api/client.ts";
import { RunStatus, type Task, TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { ago, moment, word } from "../model/text.ts";
import type { RunView } from "../model/runView.ts";
import { taskSign, taskWord } from "../model/words.ts";
import { Value, useValue } from "./store.ts";

/** The time, once a second. */
export const now = new Value(Date.now());
setInterval(() => document.visibilityState === "visible" && now.set(Date.now()), 1_000);
document.addEventListener("visibilitychange", () => now.set(Date.now()));

/** Names the page in the browser's tab, with the number of questions that wait. */
export function useTitle(text: string): void {
  const waiting = useValue(openQuestions);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${text ? `${text} · ` : ""}Stepwell`;
  }, [text, waiting]);
}

export function useNow(): number {
  return useValue(now);
}

/** Whether times are shown as moments instead of how long ago they were. */
export const absoluteTimes = new Value(false);

/** A moment: how long ago it was, or, by a key, the moment itself. */
export function Time({ at }: { at: number }) {
  const current = useNow();
  const absolute = useValue(absoluteTimes);
  if (!at) return <span>–</span>;
  const exact = moment(at);
  return (
    <time dateTime={new Date(at).toISOString()} title={exact}>
      {absolute ? exact : ago(Math.max(0, current - at))}
    </time>
  );
}

export function StatusPill({ status }: { status: RunStatus }) {
  const name = word(RunStatus, status);
  return <span class={`pill run-${name}`}>{name}</span>;
}

/** A task's status; where the task and its run's questions are given, what it waits for. */
export function TaskMark({ status, task, view }: { status: TaskStatus; task?: Task; view?: RunView }) {
  return (
    <span class={`mark task-${word(TaskStatus, status)}`}>
      <span aria-hidden="true">{taskSign(status)}</span> {taskWord(status, task, view)}
    </span>
  );
}

export function Problems({ of }: { of: Problem | undefined }) {
  if (!of) return null;
  return (
    <div class="problem" role="alert">
      <p>{of.message}</p>
      {of.faults.length > 0 && (
        <ul>
          {of.faults.map((one) => (
            <li key={one.field + one.description}>
              {one.field && <code>{one.field}</code>} {one.description}
            </li>
          ))}
        </ul>
      )}
      {of.reason && <p class="quiet">{of.reason}</p>}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** A bar from 0 to 1, with words beside it. */
export function Meter(props: { part: number; label: string; tone?: string }) {
  const part = Math.max(0, Math.min(1, props.part));
  return (
    <span class={`meter ${props.tone ?? ""}`} role="img" aria-label={props.label} title={props.label}>
      <span style={{ width: `${100 * part}%` }} />
    </span>
  );
}

export interface Loaded<T> {
  value: T | undefined;
  problem: Problem | undefined;
}

/** Loads something whenever `key` changes; keeps what is there until the new value has come. */
export function useLoad<T>(key: string, load: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ key: string; value?: T; problem?: Problem }>({ key: "" });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let wanted = true;
    load().then(
      (value) => wanted && setState({ key, value }),
      (error: unknown) => wanted && setState((one) => ({ ...one, key, problem: problem(error) })),
    );
    return () => {
      wanted = false;
    };
  }, [key, turn]);
  // What failed because the server was away is read once it is back.
  const isBack = useValue(away) === 0;
  useEffect(() => {
    if (isBack && state.problem) setTurn((one) => one + 1);
  }, [isBack]);
  const same = state.key === key;
  return {
    value: state.value,
    problem: same ? state.problem : undefined,
  };
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <button type="button" class="small" onClick={() => void copy()}>
      {done ? "Copied" : label}
    </button>
  );
}
