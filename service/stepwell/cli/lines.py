"""A line for each thing that happens to a run: what is shown where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.cli import words
from stepwell.cli.text import US, count, micros, one_line, span
from stepwell_client import EventType, RunView, StepKind
from stepwell_client.v1 import types_pb2

_SUBJECT_CHARS = 28
_OF_THE_RUN = (EventType.PLAN_ACCEPTED, EventType.RUN_SUCCEEDED, EventType.RUN_FAILED)

Said = Callable[[RunView, types_pb2.Event], str]


def line(view: RunView, event: types_pb2.Event) -> str:
    """Return the line for an event that was just applied to the view; empty: it has none."""
    say = _SAYINGS.get(event.type)
    said = say(view, event) if say is not None else ""
    if not said:
        return ""
    since = micros(event.time) - micros(view.run.created_time)
    return f"{'+' + span(since):>9}  {_subject(view, event):<{_SUBJECT_CHARS}}  {said}"


def _subject(view: RunView, event: types_pb2.Event) -> str:
    if event.task_id:
        return f"task {one_line(event.task_id)}"
    step = view.executions.get(event.execution_id)
    if step is not None and step.kind != StepKind.TASK and event.type not in _OF_THE_RUN:
        return words.STEP_NAMES.get(step.kind, "step")
    return f"run {view.run.spec.run_id[:8]}"


def _why(words_before: str) -> Said:
    def say(view: RunView, event: types_pb2.Event) -> str:
        del view
        why = one_line(event.message)
        return f"{words_before}: {why}" if why else words_before

    return say


def _leased(view: RunView, event: types_pb2.Event) -> str:
    one = view.executions.get(event.execution_id)
    if one is None:
        return "started"
    if one.kind == StepKind.RECONCILE:
        return f"is looked into by {one_line(one.worker_id)}"
    attempt = f", attempt {one.attempt}" if one.attempt > 1 else ""
    return f"started by {one_line(one.worker_id)}{attempt}"


def _completed(view: RunView, event: types_pb2.Event) -> str:
    task = view.tasks.get(event.task_id)
    began = micros(task.started_time) if task is not None else 0
    took = f" in {span(micros(event.time) - began)}" if began else ""
    counts = view.run.counts
    return f"completed{took} ({counts.completed:,} of {counts.total:,})"


def _deduplicated(view: RunView, event: types_pb2.Event) -> str:
    counts = view.run.counts
    return f"{words.deduplicated(event.message)} ({counts.completed:,} of {counts.total:,})"


def _retry(view: RunView, event: types_pb2.Event) -> str:
    for one in event.executions:
        delay_us = one.delay.seconds * US + one.delay.nanos // 1_000
        return f"will be tried again in {span(delay_us)}" if delay_us else "will be tried again"
    return "will be tried again" if view.run else ""


def _planned(view: RunView, event: types_pb2.Event) -> str:
    tasks = sum(task.revision == event.plan_revision for task in view.tasks.values())
    reason = one_line(event.message)
    return f"plan {event.plan_revision}: {count(tasks, 'task')}" + (f", {reason}" if reason else "")


def _ended(view: RunView, event: types_pb2.Event) -> str:
    return words.ending(view, span(words.took_us(view.run, micros(event.time))))


def _blocked(view: RunView, event: types_pb2.Event) -> str:
    del event
    said = words.blocked(view.run, exact=False)
    return f"waits: {said}" if said else ""


def _started(view: RunView, event: types_pb2.Event) -> str:
    del event
    return f"started: {one_line(view.run.spec.goal) or '(no goal)'}"


def _forked(view: RunView, event: types_pb2.Event) -> str:
    del event
    run = view.run
    return f"forked from {words.parent(run)}, {words.tasks(run)} kept"


_SAYINGS: dict[int, Said] = {
    EventType.RUN_STARTED: _started,
    EventType.EXECUTION_LEASED: _leased,
    EventType.EXECUTION_RELEASED: _why("handed back"),
    EventType.EXECUTION_FAILED: _why("attempt failed"),
    EventType.EXECUTION_TIMED_OUT: _why("attempt took too long"),
    EventType.LEASE_LOST: _why("its worker was lost"),
    EventType.OUTCOME_UNKNOWN: _why("nobody knows what came of it"),
    EventType.OUTCOME_RESOLVED: _why("it is known what came of it"),
    EventType.PLAN_ACCEPTED: _planned,
    EventType.PLAN_REJECTED: _why("plan refused"),
    EventType.TASK_COMPLETED: _completed,
    EventType.TASK_DEDUPLICATED: _deduplicated,
    EventType.TASK_FAILED: _why("failed"),
    EventType.TASK_RETRY_SCHEDULED: _retry,
    EventType.STEP_RETRY_SCHEDULED: _retry,
    EventType.REFLECTION_ACCEPTED: _why("decided"),
    EventType.INPUT_REQUESTED: _why("asks"),
    EventType.INPUT_ANSWERED: _why("was answered"),
    EventType.INPUT_EXPIRED: _why("was not answered in time"),
    EventType.TASK_SKIPPED: _why("skipped"),
    EventType.TASK_RETRY_REQUESTED: _why("is run again"),
    EventType.REPLAN_REQUESTED: _why("is planned again by a person's answer"),
    EventType.STOP_REQUESTED: _why("is to end after this iteration"),
    EventType.BUDGET_RAISED: _why("has a larger budget"),
    EventType.RUN_FORKED: _forked,
    EventType.RUN_BLOCKED: _blocked,
    EventType.RUN_PAUSED: _why("paused"),
    EventType.RUN_RESUMED: _why("goes on"),
    EventType.RUN_SUCCEEDED: _ended,
    EventType.RUN_FAILED: _ended,
    EventType.RUN_CANCELLED: _ended,
}
