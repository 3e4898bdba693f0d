// The timeline of a run: for each step a row, for each attempt a bar.
import {
  type Execution,
  ExecutionStatus,
  StepKind,
} from "../gen/stepwell/v1/types_pb.ts";
import { stepName } from "./runView.ts";
import { ms } from "./text.ts";

export interface Bar {
  execution: Execution;
  /** From its offer: it waits for a worker or for a back-off. */
  offered: number;
  /** From its lease; 0: it had none. */
  leased: number;
  /** Its end; 0: it is open. */
  ended: number;
  status: ExecutionStatus;
}

/** The time between two attempts in which a step waits for a person, for a time or for a budget. */
export interface Rest {
  from: number;
  /** 0: it goes on. */
  to: number;
  /** The attempt after which it began. */
  after: Execution;
}

export interface Row {
  id: string;
  title: string;
  taskId: string;
  bars: Bar[];
  rests: Rest[];
}

const RESTS: ReadonlySet<ExecutionStatus> = new Set([
  ExecutionStatus.NEEDS_ANSWER,
  ExecutionStatus.SUSPENDED,
  ExecutionStatus.UNKNOWN_OUTCOME,
]);

/**
 * Returns the rows in the order in which the steps were offered first. `over` says when a task was settled, or, for no
 * task, when the run ended; 0: it goes on.
 */
export function rows(executions: Iterable<Execution>, over: (taskId: string) => number = () => 0): Row[] {
  const found = new Map<string, Row>();
  for (const one of executions) {
    const id = one.kind === StepKind.TASK ? `task ${one.taskId}` : stepName(one);
    let row = found.get(id);
    if (!row) {
      const taskId = one.kind === StepKind.TASK ? one.taskId : "";
      row = { id, title: stepName(one), taskId, bars: [], rests: [] };
      found.set(id, row);
    }
    row.bars.push({
      execution: one,
      offered: ms(one.offeredTime),
      leased: ms(one.leasedTime),
      ended: ms(one.endedTime) || ms(one.unknownTime),
      status: one.status,
    });
  }
  for (const { taskId, bars, rests } of found.values()) {
    bars.forEach(({ status, ended, execution }, index) => {
      if (!ended || !RESTS.has(status)) return;
      const to = bars[index + 1]?.offered ?? over(taskId);
      if (!to || to > ended) rests.push({ from: ended, to, after: execution });
    });
  }
  return [...found.values()];
}

/** Whether something of a row goes on. */
export function isOpen(row: Row): boolean {
  return row.bars.some((one) => !one.ended) || row.rests.some((one) => !one.to);
}

/** Returns the first and the last moment of all rows. */
export function bounds(all: readonly Row[], now: number): [from: number, to: number] {
  let from = Number.POSITIVE_INFINITY;
  let to = 0;
  for (const { bars, rests } of all) {
    for (const bar of bars) {
      from = Math.min(from, bar.offered || bar.leased || from);
      to = Math.max(to, bar.ended || now);
    }
    for (const rest of rests) to = Math.max(to, rest.to || now);
  }
  if (!to) return [now - 1_000, now];
  return [from, Math.max(to, from + 1)];
}

/** A row's first and last moment, and how long its step has taken in between; while it rests, for how long it does. */
export function extent({ bars, rests }: Row, now: number): { from: number; to: number; took: number; rests: boolean } {
  const first = bars[0]!;
  const last = bars.at(-1)!;
  const from = first.offered || first.leased;
  const rest = rests.find((one) => !one.to);
  if (rest) return { from, to: now, took: now - rest.from, rests: true };
  const to = Math.max(last.ended || now, ...rests.map((one) => one.to));
  const began = bars.find((one) => one.leased)?.leased;
  return { from, to, took: began ? to - began : 0, rests: false };
}
