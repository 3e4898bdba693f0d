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

export interface Row {
  id: string;
  title: string;
  taskId: string;
  bars: Bar[];
}

/** Returns the rows in the order in which the steps were offered first. */
export function rows(executions: Iterable<Execution>): Row[] {
  const found = new Map<string, Row>();
  for (const one of executions) {
    const id = one.kind === StepKind.TASK ? `task ${one.taskId}` : stepName(one);
    let row = found.get(id);
    if (!row) {
      const taskId = one.kind === StepKind.TASK ? one.taskId : "";
      row = { id, title: stepName(one), taskId, bars: [] };
      found.set(id, row);
    }
    row.bars.push({
      execution: one,
      offered: ms(one.offeredTime),
      leased: ms(one.leasedTime),
      ended: ms(one.endedTime),
      status: one.status,
    });
  }
  return [...found.values()];
}

/** Returns the first and the last moment of all bars. */
export function bounds(all: readonly Row[], now: number): [from: number, to: number] {
  let from = Number.POSITIVE_INFINITY;
  let to = 0;
  for (const row of all) {
    for (const bar of row.bars) {
      from = Math.min(from, bar.offered || bar.leased || from);
      to = Math.max(to, bar.ended || now);
    }
  }
  if (!to) return [now - 1_000, now];
  return [from, Math.max(to, from + 1)];
}

/** Returns round moments to mark, at most so many, as milliseconds after `from`. */
export function ticks(length: number, most: number): number[] {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 1.8e6];
  steps.push(3.6e6, 2.16e7, 8.64e7, 6.048e8, 2.592e9);
  const step = steps.find((one) => length / one <= most) ?? length;
  const marks: number[] = [];
  for (let at = step; at < length; at += step) marks.push(at);
  return marks;
}
