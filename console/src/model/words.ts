// Descriptions of a run's state, in the command line's words.
import {
  BlockedKind,
  type Event,
  EventType,
  type Failure,
  PauseReason,
  QuestionStatus,
  Phase,
  type Run,
  RunStatus,
  StepKind,
  type Task,
  TaskStatus,
  VersionMatch,
  WaitKind,
} from "../gen/stepwell/v1/types_pb.ts";
import { type RunView, stepName } from "./runView.ts";
import { count, firstLine, ms, number, shortId, span, spanMs, word } from "./text.ts";

export const ENDED: ReadonlySet<RunStatus> = new Set([
  RunStatus.SUCCEEDED,
  RunStatus.FAILED,
  RunStatus.CANCELLED,
]);

export const SETTLED: ReadonlySet<TaskStatus> = new Set([
  TaskStatus.COMPLETED,
  TaskStatus.FAILED,
  TaskStatus.SKIPPED,
  TaskStatus.CANCELLED,
]);

export function isEnded(run: Run): boolean {
  return ENDED.has(run.status);
}

export function runName(run: Run): string {
  return shortId(run.spec?.runId ?? "");
}

/** What a run is called in a list and in the title of its page. */
export function runTitle(run: Run): string {
  const spec = run.spec;
  return firstLine(spec?.goal ?? "") || spec?.pipelineId || "(no goal)";
}

/** A failure in one line; empty: there is none. */
export function failureLine(one: Failure | undefined): string {
  return one ? [one.kind, firstLine(one.message)].filter(Boolean).join(": ") : "";
}

/** The phase and the iteration. */
export function where(run: Run): string {
  const phase = run.phase === Phase.DONE ? "" : word(Phase, run.phase);
  const many = run.iteration > 1 || run.stages.includes(StepKind.REFLECT);
  const of = `iteration ${number(run.iteration)} of ${number(run.spec?.maxIterations ?? 0)}`;
  return [phase, many ? of : ""].filter(Boolean).join(" · ");
}

/** The time since a run's start, until its end where it has ended. */
export function took(run: Run, now: number): number {
  const began = ms(run.startedTime) || ms(run.createdTime);
  return began ? (ms(run.endedTime) || now) - began : 0;
}

/** How many tasks are done, and how many ended otherwise. */
export function taskCounts(run: Run): string {
  const counts = run.counts;
  if (!counts?.total) return isEnded(run) ? "no tasks" : "no tasks yet";
  const parts = [`${number(counts.completed)} of ${count(counts.total, "task")}`];
  for (const name of ["failed", "skipped", "cancelled"] as const) {
    if (counts[name]) parts.push(`${number(counts[name])} ${name}`);
  }
  return parts.join(", ");
}

/** Who sent a command, and for whom; empty: nobody is known. */
export function caller(actor: string, onBehalfOf: string): string {
  return actor && onBehalfOf ? `${actor} for ${onBehalfOf}` : actor;
}

/** What a run waits for; empty: nothing. */
export function blocked(run: Run): string {
  const queue = run.spec?.queue ?? "";
  if (isEnded(run)) return "";
  if (run.status === RunStatus.PAUSED || run.blockedOn === BlockedKind.BUDGET) return pause(run);
  switch (run.blockedOn) {
    case BlockedKind.WORKER:
      return noWorker(run);
    case BlockedKind.CAPACITY:
      return run.waitingFor?.alone
        ? `a step that may have ended its workers waits for a worker of queue ${queue} that holds nothing else`
        : `no worker of queue ${queue} is free`;
    case BlockedKind.QUESTION:
      return "a person is asked for something";
    case BlockedKind.TIMER:
      return "a back-off, a sleep or a start delay has to pass";
    case BlockedKind.UNKNOWN_OUTCOME:
      return "a step that may run only once was lost while it ran: nobody knows what came of it";
    case BlockedKind.SIGNAL:
      return "a signal has to come";
    case BlockedKind.CHILD:
      return "a child run has to end";
    case BlockedKind.THREAD:
      return "another run of its thread has to end";
    case BlockedKind.KEY:
      return run.blockedRunId
        ? `run ${shortId(run.blockedRunId)} has the same task under way (idempotency key)`
        : "another run has the same task under way (idempotency key)";
    default:
      return "";
  }
}

function noWorker(run: Run): string {
  const step = run.waitingFor;
  const queue = run.spec?.queue ?? "";
  // Lists and events don't say which step it is, nor whether a worker is busy or missing.
  if (!step) return `no worker of queue ${queue} is free`;
  const wanted: string[] = [];
  if (step.type) wanted.push(`tasks of type ${step.type}`);
  if (step.role) wanted.push(`role ${step.role}`);
  if (step.workerVersion?.version) {
    const least = step.workerVersion.match === VersionMatch.AT_LEAST ? " or later" : "";
    wanted.push(`version ${step.workerVersion.version}${least}`);
  }
  const does = wanted.length ? ` and does ${wanted.join(", ")}` : "";
  return `no worker serves queue ${queue}${does}`;
}

/** The cause of a pause. */
export function pause(run: Run): string {
  const why: Partial<Record<PauseReason, string>> = {
    [PauseReason.BUDGET_EXHAUSTED]: "its budget is used up",
    [PauseReason.NO_PROGRESS]: "it made no progress",
    [PauseReason.QUESTION_EXPIRED]: "nobody answered in time",
    [PauseReason.PARENT]: "its parent is paused",
  };
  const text = why[run.pauseReason] ?? "paused";
  return run.reason ? `${text}: ${firstLine(run.reason)}` : text;
}

/** The sign before a task. */
export function taskSign(status: TaskStatus): string {
  switch (status) {
    case TaskStatus.COMPLETED:
      return "✓";
    case TaskStatus.RUNNING:
      return "●";
    case TaskStatus.READY:
      return "◌";
    case TaskStatus.BLOCKED:
      return "?";
    case TaskStatus.FAILED:
      return "✗";
    case TaskStatus.SKIPPED:
    case TaskStatus.CANCELLED:
      return "⊘";
    default:
      return "○";
  }
}

/** What a task does: whether it is tried again; for one that is blocked, what it waits for, as far as that is known. */
export function taskWord(status: TaskStatus, task?: Task, view?: RunView): string {
  if (status === TaskStatus.READY && task && task.attempts > 1) return "tries again";
  if (status !== TaskStatus.BLOCKED) return word(TaskStatus, status);
  const asked = task && view?.questions.get(task.questionId);
  if (asked?.status === QuestionStatus.OPEN || task?.waits.some((one) => one.kind === WaitKind.QUESTION)) return "asks a person";
  if (task?.waits.some((one) => one.kind === WaitKind.SIGNAL)) return "waits for a signal";
  const child = task?.waits.find((one) => one.kind === WaitKind.CHILD);
  if (child) return child.questionId === task?.questionId ? `is child run ${child.call}` : "waits for a child run";
  return task?.waits.some((one) => one.kind === WaitKind.SLEEP) ? "sleeps" : "waits";
}

const PHRASES: Partial<Record<EventType, string>> = {
  [EventType.RUN_STARTED]: "started",
  [EventType.EXECUTION_BEGUN]: "begins its effect",
  [EventType.EXECUTION_RELEASED]: "handed back",
  [EventType.EXECUTION_FAILED]: "attempt failed",
  [EventType.EXECUTION_TIMED_OUT]: "attempt took too long",
  [EventType.LEASE_LOST]: "its worker was lost",
  [EventType.OUTCOME_UNKNOWN]: "nobody knows what came of it",
  [EventType.OUTCOME_RESOLVED]: "it is known what came of it",
  [EventType.PLAN_REJECTED]: "plan refused",
  [EventType.TASK_COMPLETED]: "completed",
  [EventType.TASK_FAILED]: "failed",
  [EventType.TASK_SKIPPED]: "skipped",
  [EventType.GROUP_GATHERED]: "its group has enough",
  [EventType.TASK_RETRY_REQUESTED]: "is run again",
  [EventType.REFLECTION_ACCEPTED]: "decided",
  [EventType.ITERATION_COMPLETED]: "iteration ended",
  [EventType.QUESTION_ASKED]: "asks",
  [EventType.QUESTION_ANSWERED]: "was answered",
  [EventType.QUESTION_EXPIRED]: "was not answered in time",
  [EventType.REPLAN_REQUESTED]: "is planned again by a person's answer",
  [EventType.STOP_REQUESTED]: "is to end after this iteration",
  [EventType.BUDGET_RAISED]: "has a larger budget",
  [EventType.RUN_PAUSED]: "paused",
  [EventType.RUN_RESUMED]: "goes on",
  [EventType.RUN_SUCCEEDED]: "succeeded",
  [EventType.RUN_FAILED]: "failed",
  [EventType.RUN_CANCELLED]: "was cancelled",
  [EventType.RUN_FORKED]: "forked",
  [EventType.RUN_BLOCKED]: "waits for something else",
  [EventType.MESSAGES_APPENDED]: "added to its conversation",
  [EventType.TASK_DEDUPLICATED]: "took the result of a task with the same key",
  [EventType.STEP_POISONED]: "is poison",
  [EventType.STEP_SUSPENDED]: "waits",
  [EventType.STEP_WOKEN]: "goes on",
  [EventType.JOURNAL_RENEWED]: "its journal begins anew",
  [EventType.JOURNAL_FORGOTTEN]: "forgot a call",
  [EventType.CHILD_ENDED]: "a child run ended",
  [EventType.PLACE_CHANGED]: "a run above it was deleted",
  [EventType.RUN_JOINED]: "a run joined",
  [EventType.RUN_LEFT]: "a run left",
  [EventType.RUN_LET_GO]: "its thread lets it work",
  [EventType.RUN_STEERED]: "a start steered a run",
  [EventType.THREAD_WRITTEN]: "its thread was written",
  [EventType.LETTERS_DELIVERED]: "letters delivered",
  [EventType.WAIT_OPENED]: "waits while it runs",
  [EventType.WAIT_EXPIRED]: "no signal came in time",
  [EventType.SIGNAL_RECEIVED]: "has a signal",
  [EventType.SIGNAL_TAKEN]: "took a signal",
};

const OF_THE_RUN: ReadonlySet<EventType> = new Set([
  EventType.PLAN_ACCEPTED,
  EventType.RUN_SUCCEEDED,
  EventType.RUN_FAILED,
]);

/** What an event is about: a task, a step or the run. */
export function subject(view: RunView, event: Event): string {
  if (event.taskId) return event.taskId;
  if (!event.executionId || OF_THE_RUN.has(event.type)) return "run";
  const step = view.executions.get(event.executionId);
  // Of an attempt that ended before the page began only the name is known: `plan:1#1`.
  return step ? stepName(step) : (/^[a-z]+/.exec(event.executionId)?.[0] ?? "run");
}

/** What an event says, in one line. */
export function eventText(event: Event): string {
  return `${phrase(event)}${event.message ? `: ${firstLine(event.message)}` : ""}`;
}

function phrase(event: Event): string {
  const [change] = event.executions;
  switch (event.type) {
    case EventType.EXECUTION_LEASED: {
      const leased = event.executions.find((one) => one.executionId === event.executionId);
      return leased?.workerId ? `started by ${leased.workerId}` : "started";
    }
    case EventType.TASK_RETRY_SCHEDULED:
    case EventType.STEP_RETRY_SCHEDULED: {
      const delay = spanMs(change?.delay);
      return delay ? `will be tried again in ${span(delay)}` : "will be tried again";
    }
    case EventType.PLAN_ACCEPTED:
      return `plan ${event.planRevision}`;
    default:
      return PHRASES[event.type] ?? word(EventType, event.type);
  }
}
