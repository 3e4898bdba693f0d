"""Descriptions of a run's state for people: phrases, colours and signs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import NamedTuple

from stepwell.cli.view.text import count, micros, one_line, short_id, span
from stepwell_client import (
    BlockedKind,
    Execution,
    ExecutionStatus,
    Run,
    RunStatus,
    RunTask,
    RunView,
    StepKind,
    TaskStatus,
)
from stepwell_client.enums import ENDED, PauseReason, Phase, WaitKind
from stepwell_client.records import AttemptCounts, FailureRecord, Usage, WaitingStep

STATUS_STYLES: dict[int, str] = {
    RunStatus.QUEUED: "dim",
    RunStatus.RUNNING: "cyan",
    RunStatus.WAITING: "yellow",
    RunStatus.PAUSED: "yellow",
    RunStatus.SUCCEEDED: "green",
    RunStatus.FAILED: "bold red",
    RunStatus.CANCELLED: "magenta",
}


class Sign(NamedTuple):
    """The sign before a row."""

    sign: str
    plain: str
    """The sign for terminals that can't show the other."""
    style: str


DONE = Sign("✓", "+", "green")
RUNNING = Sign("●", "*", "cyan")
LOST = Sign("!", "!", "yellow")
READY = Sign("◌", "o", "")
PENDING = Sign("○", ".", "dim")
BLOCKED = Sign("?", "?", "yellow")
FAILED = Sign("✗", "x", "bold red")
SKIPPED = Sign("⊘", "-", "dim")

TASK_SIGNS: dict[int, Sign] = {
    TaskStatus.PENDING: PENDING,
    TaskStatus.READY: READY,
    TaskStatus.RUNNING: RUNNING,
    TaskStatus.BLOCKED: BLOCKED,
    TaskStatus.COMPLETED: DONE,
    TaskStatus.FAILED: FAILED,
    TaskStatus.SKIPPED: SKIPPED,
    TaskStatus.CANCELLED: SKIPPED,
}
STEP_NAMES: dict[int, str] = {
    StepKind.PLAN: "plan",
    StepKind.REFLECT: "reflect",
    StepKind.SYNTHESIZE: "synthesize",
    StepKind.RECONCILE: "reconcile",
}


def status(run: Run) -> str:
    """Return the name of the run's status."""
    return run.status.name


def failure(one: FailureRecord | None) -> str:
    """Return a failure in one line, or ""."""
    if one is None:
        return ""
    return one_line(": ".join(part for part in (one.kind, one.message) if part))


def where(view: RunView) -> str:
    """Return the phase and the iteration."""
    run = view.run
    phase = "" if run.phase == Phase.DONE else run.phase.name.lower()
    iteration = f"iteration {run.iteration} of {run.max_iterations}"
    parts = [phase, iteration if run.iteration > 1 or StepKind.REFLECT in run.stages else ""]
    return " · ".join(part for part in parts if part)


def took_us(run: Run, now_us: int) -> int:
    """Return the time since the run's start, until its end where it has ended."""
    began = micros(run.started_time) or micros(run.created_time)
    ended = micros(run.ended_time)
    return (ended or now_us) - began if began else 0


def caller(actor: str, on_behalf_of: str) -> str:
    """Return the sender of a command, and the name on whose behalf it was sent, or ""."""
    name = one_line(actor)
    return f"{name} for {one_line(on_behalf_of)}" if name and on_behalf_of else name


def parent(run: Run) -> str:
    """Return the run and version that a run was forked from, or ""."""
    return (
        f"{short_id(run.parent_run_id)} at version {run.parent_version}"
        if run.parent_run_id
        else ""
    )


def root_id(run: Run) -> str:
    """Return the id of the run at the root of a run's tree: its own where no run started it."""
    return run.child_of.root_run_id if run.child_of is not None else run.id


def above(run: Run) -> str:
    """Return the run and task that started a child run, or ""."""
    place = run.child_of
    if place is None:
        return ""
    step = f", task {place.task_id}" if place.task_id else ""
    return f"{short_id(place.run_id)}{step}"


def attempts(run: Run) -> str:
    """Return the number of attempts by their end, or "" if none has ended. Handed-back attempts don't count."""
    counted = [
        (one.name.replace("_", " "), getattr(run.attempts, one.name))
        for one in fields(AttemptCounts)
        if one.name != "released"
    ]
    return ", ".join(f"{number:,} {name}" for name, number in counted if number)


def attempt_of(view: RunView, one: Execution) -> int:
    """Return which attempt at its step this is, for people: those that were handed back are none.

    Their own numbers, which are never used again, count all.
    """
    step = one.id.rpartition("#")[0]
    earlier = (view.executions.get(f"{step}#{number}") for number in range(1, one.attempt))
    back = sum(each is not None and each.status == ExecutionStatus.RELEASED for each in earlier)
    return one.attempt - back


def tasks(run: Run) -> str:
    """Return the number of tasks that are done, and of those that ended otherwise."""
    counts = run.counts
    if not counts.total:
        return "no tasks yet" if run.status not in ENDED else "no tasks"
    parts = [f"{counts.completed:,} of {count(counts.total, 'task')}"]
    for name in ("failed", "skipped", "cancelled"):
        number = getattr(counts, name)
        if number:
            parts.append(f"{number:,} {name}")
    return ", ".join(parts)


def spent(usage: Usage) -> str:
    """Return the used tokens and cost, or ""."""
    parts: list[str] = []
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if usage.cost_micros:
        parts.append(f"cost {cost(usage.cost_micros)}")
    return ", ".join(parts)


def cost(amount_micros: int) -> str:
    """Return an amount of money in whole units: `0.0015`."""
    return f"{amount_micros / 1_000_000:,.6f}".rstrip("0").rstrip(".")


_NO_PERSON = {
    BlockedKind.SIGNAL: "a signal has to come",
    BlockedKind.CHILD: "a child run has to end",
    BlockedKind.THREAD: "another run of its thread has to end",
}


def blocked(run: Run, *, exact: bool) -> str:
    """Return what the run waits for and who can help, or "".

    `exact` says that the run comes from the service; events alone don't distinguish a busy worker
    from an absent one.
    """
    kind, queue = run.blocked_on, run.queue
    if run.status in ENDED:
        return ""
    if kind == BlockedKind.WORKER and exact:
        return _no_worker(run)
    if kind == BlockedKind.CAPACITY and run.waiting_for is not None and run.waiting_for.alone:
        return f"a step that may have ended its workers waits for a worker of queue {queue!r} that holds nothing else"
    if kind in (BlockedKind.WORKER, BlockedKind.CAPACITY):
        return f"no worker of queue {queue!r} is free"
    if kind == BlockedKind.QUESTION:
        return "a person is asked for something"
    if kind == BlockedKind.TIMER:
        return "a back-off or a start delay has to pass"
    if kind == BlockedKind.UNKNOWN_OUTCOME:
        return "a task that may run only once was lost while it ran: nobody knows what came of it"
    if kind in _NO_PERSON:
        return _NO_PERSON[kind]
    if kind == BlockedKind.KEY:
        return has_key(run.blocked_run_id)
    if run.status == RunStatus.PAUSED or kind == BlockedKind.BUDGET:
        return pause(run)
    return ""


def _no_worker(run: Run) -> str:
    step, queue = run.waiting_for or WaitingStep(), run.queue
    wanted = [
        *([f"tasks of type {step.type!r}"] if step.type else []),
        *([f"role {step.role!r}"] if step.role else []),
    ]
    version = pinned(step.worker_version or run.worker_version)
    flag = other = ""
    if version:
        wanted.append(version)
        flag = f" --version {version.split()[1]}"
        other = f", or go on in a fork: stepwell fork {short_id(run.id)} --worker-version any"
    does = f" and does {', '.join(wanted)}" if wanted else ""
    return (
        f"no worker serves queue {queue!r}{does}; start one: "
        f"stepwell worker MODULE:AGENT --queue {queue}{flag}{other}"
    )


def pinned(worker_version: str) -> str:
    """Return the version that a run's workers must have in words (`version 1.4 or later`), or "" for any."""
    pin = worker_version.removeprefix(">=")
    if pin in {"", "any"}:
        return ""
    return f"version {pin}{' or later' if pin != worker_version else ''}"


def other_queues(run: Run, served: Iterable[str]) -> str:
    """Return how to bring a run and the connected workers together, or "" if they serve its queue or no other."""
    queues = sorted(set(served))
    if not queues or run.queue in queues:
        return ""
    return (
        f"connected workers serve {', '.join(map(repr, queues))}; let them serve this queue, too"
        f" (stepwell worker … --queue {run.queue}), or start runs with --queue {queues[0]}"
    )


def task_waits(view: RunView, task: RunTask) -> str:
    """Return a phrase about what a blocked task waits for: its question, else the first thing of a suspended step."""
    for question_id in (task.question_id, *(one.question_id for one in task.waits)):
        if (question := view.questions.get(question_id)) is not None:
            return f"asks: {one_line(question.prompt)}"
    kinds = {one.kind for one in task.waits}
    if WaitKind.SLEEP in kinds:
        return "sleeps"
    if WaitKind.BUDGET in kinds:
        return "waits for a higher budget"
    if WaitKind.SIGNAL in kinds:
        return "waits for a signal"
    for one in task.waits:
        if one.kind is WaitKind.CHILD:
            is_child = one.question_id == task.question_id
            return f"is child run {one.call}" if is_child else "waits for a child run"
    return "waits for an answer" if task.question_id or kinds else "nobody knows what came of it"


def unknown(execution: Execution, now_us: int) -> str:
    """Return a phrase about an execution whose outcome is unknown, and for how long."""
    since = micros(execution.unknown_time)
    waited = f", for {span(now_us - since)}" if since else ""
    return f"nobody knows what came of {one_line(execution.id)}{waited}"


def deduplicated(source: str) -> str:
    """Return a phrase about a task that reused the result of `run/execution`."""
    run_id, _, rest = source.partition("/task:")
    return f"DEDUPLICATED: took the result of {one_line('task:' + rest)} of run {short_id(run_id)}"


def has_key(run_id: str) -> str:
    """Return a phrase about a task whose idempotency key another run has; `run_id` is "" if that run is unknown."""
    if not run_id:
        return "the store can't say who has the task's idempotency key"
    return f"run {short_id(run_id)} has the same task under way (idempotency key)"


def pause(run: Run) -> str:
    """Return the cause of a pause."""
    why = {
        PauseReason.BUDGET_EXHAUSTED: "its budget is used up",
        PauseReason.NO_PROGRESS: "it made no progress",
        PauseReason.QUESTION_EXPIRED: "nobody answered in time",
        PauseReason.PARENT: "its parent is paused",
    }.get(run.pause_reason, "paused")
    reason = one_line(run.reason)
    return f"{why}: {reason}" if reason else why


def ending(view: RunView, took: str) -> str:
    """Return the sentence with which a command that followed a run ends."""
    run = view.run
    text = {
        RunStatus.SUCCEEDED: f"succeeded in {took}, {tasks(run)}",
        RunStatus.FAILED: f"failed after {took}: {failure(run.failure) or 'no reason was given'}",
        RunStatus.CANCELLED: f"was cancelled after {took}",
        RunStatus.PAUSED: f"stands still after {took}: {pause(run)}",
        RunStatus.WAITING: f"waits after {took}: {blocked(run, exact=True)}",
    }.get(run.status, f"is {status(run)}")
    reason = one_line(run.reason) if run.status == RunStatus.CANCELLED else ""
    return f"{text}: {reason}" if reason else text


def has_unfit_input(run: Run) -> bool:
    """Return whether the run failed because its own input doesn't fit, which a resume can't change."""
    kind = run.failure.kind if run.failure is not None else ""
    return kind == "INVALID_INPUT" and run.phase != Phase.EXECUTING


def advice(run: Run, name: str) -> str:
    """Return the command that continues from here, or ""."""
    if run.pause_reason == PauseReason.BUDGET_EXHAUSTED:
        others = "(or --tokens-out, --cost, --tasks, --iterations, --wall)"
        return f"raise a limit: stepwell budget {name} --tokens-in N {others}"
    if run.status == RunStatus.FAILED and has_unfit_input(run):
        replan = "" if run.plan_revision else "--replan "
        return f"start it again with an input that fits: stepwell fork {name} {replan}--input JSON"
    if run.status == RunStatus.FAILED:
        return f"once the cause is mended, go on: stepwell resume {name}"
    if run.status == RunStatus.PAUSED:
        return f"go on: stepwell resume {name}"
    if run.status == RunStatus.WAITING and run.blocked_on == BlockedKind.QUESTION:
        return f"see what it asks: stepwell questions {name}; then: stepwell answer {name} VALUE"
    if run.blocked_on == BlockedKind.UNKNOWN_OUTCOME and run.status not in ENDED:
        return f"settle it: stepwell resolve {name} EXECUTION --done (or --not-done)"
    if run.status == RunStatus.WAITING:
        return f"follow it on: stepwell watch {name} --wait"
    return ""
