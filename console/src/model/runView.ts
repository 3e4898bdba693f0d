// The rows of a run, folded from its events. An event is a complete delta of absolute values, so applying one
// twice does no harm: a listing that is newer than the cursor of the stream is brought back to the same rows.
import { create } from "@bufbuild/protobuf";
import type { TaskEntry } from "../gen/stepwell/v1/orchestrator_pb.ts";
import {
  type Event,
  type Execution,
  ExecutionSchema,
  ExecutionStatus,
  type Question,
  type Run,
  QuestionKind,
  StepKind,
  type Task,
  TaskSchema,
  type TaskSpec,
  TaskStatus,
} from "../gen/stepwell/v1/types_pb.ts";

/** Lists with presence: the field of the row, and the field of the message that stands between. */
const LISTS: Record<string, string> = { stages: "stages", waits: "waits", stepWaits: "waits" };

type Fields = Record<string, unknown>;

/** Writes the fields of a change into a row. */
function merge(change: object, row: object): void {
  const target = row as Fields;
  for (const [name, value] of Object.entries(change as Fields)) {
    if (name === "$typeName" || name === "$unknown" || value === undefined) continue;
    const list = LISTS[name];
    target[name] = list ? [...(value as Record<string, unknown[]>)[list]!] : value;
  }
}

/** A run with its tasks, executions and questions, as of the last event that was applied. */
export class RunView {
  readonly specs = new Map<string, TaskSpec>();
  /** By task id, in the order of plan revision, then of the plan. */
  readonly tasks = new Map<string, Task>();
  /** By execution id, in the order in which they were offered. */
  readonly executions = new Map<string, Execution>();
  readonly questions = new Map<string, Question>();
  /** Counts changes of tasks or specs that a graph's layout depends on. */
  plans = 0;

  constructor(public run: Run) {}

  /** Adds tasks as the server lists them. */
  addTasks(entries: readonly TaskEntry[]): void {
    for (const { task, spec } of entries) {
      if (!task || !spec) continue;
      this.specs.set(task.taskId, spec);
      this.tasks.set(task.taskId, task);
    }
    this.plans += 1;
  }

  /** Adds executions as the server lists them. */
  addExecutions(executions: readonly Execution[]): void {
    for (const one of executions) this.executions.set(one.executionId, one);
  }

  /** Whether the event accepts a plan whose tasks have not been listed. */
  lacksTasks(event: Event): boolean {
    if (!event.planRevision) return false;
    let newest = 0;
    for (const task of this.tasks.values()) if (task.revision > newest) newest = task.revision;
    return event.planRevision > newest;
  }

  /** Brings the rows to their state after the event. */
  apply(event: Event): void {
    const run = { ...this.run, version: event.version, lastEvent: event.number };
    if (event.run) merge(event.run, run);
    this.run = run;
    for (const change of event.tasks) {
      const before = this.tasks.get(change.taskId);
      const task = before
        ? { ...before }
        : create(TaskSchema, { taskId: change.taskId, status: TaskStatus.PENDING });
      merge(change, task);
      this.tasks.set(change.taskId, task);
      if (!before) this.plans += 1;
    }
    for (const change of event.executions) {
      const before = this.executions.get(change.executionId);
      if (!before && !change.kind) continue; // It was offered before this view began.
      const execution = before
        ? { ...before }
        : create(ExecutionSchema, { status: ExecutionStatus.READY, iteration: 1, attempt: 1 });
      merge(change, execution);
      this.executions.set(change.executionId, execution);
    }
    for (const question of event.questions) {
      if (question.kind !== QuestionKind.SIGNAL && question.kind !== QuestionKind.CHILD) this.questions.set(question.questionId, question);
    }
  }
}

/** Events by number, each once, without gaps from the first one that is here. */
export class EventLog {
  readonly events: Event[] = [];

  /** Adds an event. Returns false where it is here already, or where one before it is missing. */
  add(event: Event): boolean {
    const last = this.events.at(-1);
    if (last && event.number !== last.number + 1n) return false;
    this.events.push(event);
    return true;
  }

  /** Puts older events before those that are here. */
  prepend(older: readonly Event[]): void {
    const first = this.events[0]?.number;
    this.events.unshift(...older.filter((one) => first === undefined || one.number < first));
  }

  get first(): bigint {
    return this.events[0]?.number ?? 0n;
  }

  get last(): bigint {
    return this.events.at(-1)?.number ?? 0n;
  }
}

const STEP_NAMES: Partial<Record<StepKind, string>> = {
  [StepKind.PLAN]: "plan",
  [StepKind.REFLECT]: "reflect",
  [StepKind.SYNTHESIZE]: "synthesize",
  [StepKind.RECONCILE]: "reconcile",
};

/** The name of the step that an execution is an attempt at. */
export function stepName(execution: Execution): string {
  const name = STEP_NAMES[execution.kind];
  if (execution.kind === StepKind.RECONCILE) return `${name} ${execution.taskId}`;
  return name ? `${name} (iteration ${execution.iteration})` : execution.taskId;
}
