// The attempts of a run that wait for a back-off or a start delay, and why.
import { type Execution, ExecutionStatus } from "../gen/stepwell/v1/types_pb.ts";
import { stepName } from "./runView.ts";
import { ms, span, spanMs } from "./text.ts";

export interface Delayed {
  execution: Execution;
  /** The attempt before it, which failed; for a start delay there is none. */
  failed: Execution | undefined;
  /** When it may be leased. */
  due: number;
}

/** When an attempt that no worker has had may be leased; 0: at once. */
export function dueOf(execution: Execution): number {
  const delay = spanMs(execution.delay);
  return execution.status === ExecutionStatus.READY && delay ? ms(execution.offeredTime) + delay : 0;
}

/** Returns the attempts that may be leased later, the next one first. */
export function delayed(executions: Iterable<Execution>): Delayed[] {
  const found: Delayed[] = [];
  const failures = new Map<string, Execution>();
  for (const execution of executions) {
    const due = dueOf(execution);
    if (due) found.push({ execution, failed: failures.get(stepName(execution)), due });
    else if (execution.failure) failures.set(stepName(execution), execution);
  }
  return found.sort((one, other) => one.due - other.due);
}

/** Says when an attempt begins: `in 9s`, or as soon as a worker is free. */
export function begins(due: number, now: number): string {
  const left = Math.ceil((due - now) / 1_000);
  if (left <= 0) return "as soon as a worker is free";
  return `in ${left < 60 ? `${left}s` : span(left * 1_000)}`;
}
