"""One line for each event of a run, printed where there is no terminal; of a failed attempt also its traceback."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.cli.view import describe
from stepwell.cli.view.text import count, lines, micros, one_line, short_id, span, span_us
from stepwell_client import Event, EventType, RunView, StepKind

_SUBJECT_CHARS = 28
_TRACE_LINES_MAX = 30
_OF_THE_RUN = (EventType.PLAN_ACCEPTED, EventType.RUN_SUCCEEDED, EventType.RUN_FAILED)

Formatter = Callable[[RunView, Event], str]


def line(view: RunView, event: Event) -> str:
    """Return the line for an event that was just applied to the view, or "" if it has none."""
    formatter = _FORMATTERS.get(event.type)
    text = formatter(view, event) if formatter is not None else ""
    if not text:
        return ""
    since = micros(event.time) - micros(view.run.created_time)
    first = (
        f"{'+' + span(since):>9}  {_subject(view, event):<{_SUBJECT_CHARS}}  {text}{_caller(event)}"
    )
    return "\n".join([first, *_trace(event)])


def _trace(event: Event) -> list[str]:
    """Return the last lines of the tracebacks of attempts that ended with the event."""
    failures = [one.get("failure") for one in event.executions.values()]
    details = [one.details for one in failures if one is not None]
    shown = [line for text in details for line in lines(text).splitlines()]
    left = (
        [f"… {count(len(shown) - _TRACE_LINES_MAX, 'line')} above"]
        if len(shown) > _TRACE_LINES_MAX
        else []
    )
    return [f"{'':>9}  {line}" for line in [*left, *shown[-_TRACE_LINES_MAX:]]]


def _caller(event: Event) -> str:
    """Return the sender of the command that made an event, or ""."""
    name = describe.caller(event.actor, event.on_behalf_of)
    return f" (by {name})" if name else ""


def _subject(view: RunView, event: Event) -> str:
    if event.task_id:
        return f"task {one_line(event.task_id)}"
    step = view.executions.get(event.execution_id)
    if step is not None and step.kind != StepKind.TASK and event.type not in _OF_THE_RUN:
        return describe.STEP_NAMES.get(step.kind, "step")
    return f"run {short_id(view.run.id)}"


def _with_message(phrase: str) -> Formatter:
    """Return the formatter of an event whose message is appended to a phrase."""

    def formatted(view: RunView, event: Event) -> str:
        del view
        message = one_line(event.message)
        return f"{phrase}: {message}" if message else phrase

    return formatted


def _leased(view: RunView, event: Event) -> str:
    one = view.executions.get(event.execution_id)
    if one is None:
        return "taken by a worker"
    if one.kind == StepKind.RECONCILE:
        return f"is looked into by {one_line(one.worker_id)}"
    number = describe.attempt_of(view, one)
    attempt = f", attempt {number}" if number > 1 else ""
    return f"taken by {one_line(one.worker_id)}{attempt}"


def _completed(view: RunView, event: Event) -> str:
    task = view.tasks.get(event.task_id)
    began = micros(task.started_time) if task is not None else 0
    took = f" in {span(micros(event.time) - began)}" if began else ""
    counts = view.run.counts
    return f"completed{took} ({counts.completed:,} of {counts.total:,})"


def _deduplicated(view: RunView, event: Event) -> str:
    counts = view.run.counts
    return f"{describe.deduplicated(event.message)} ({counts.completed:,} of {counts.total:,})"


def _retry(view: RunView, event: Event) -> str:
    del view
    delay_us = sum(span_us(one.get("delay")) for one in list(event.executions.values())[:1])
    return f"will be tried again in {span(delay_us)}" if delay_us else "will be tried again"


def _planned(view: RunView, event: Event) -> str:
    tasks = sum(task.revision == event.plan_revision for task in view.tasks.values())
    reason = one_line(event.message)
    return f"plan {event.plan_revision}: {count(tasks, 'task')}" + (f", {reason}" if reason else "")


def _ended(view: RunView, event: Event) -> str:
    return describe.ending(view, span(describe.took_us(view.run, micros(event.time))))


def _blocked(view: RunView, event: Event) -> str:
    del event
    cause = describe.blocked(view.run, exact=False)
    return f"waits: {cause}" if cause else ""


def _started(view: RunView, event: Event) -> str:
    del event
    return f"started: {one_line(view.run.goal) or '(no goal)'}"


def _forked(view: RunView, event: Event) -> str:
    del event
    run = view.run
    return f"forked from {describe.parent(run)}, {describe.tasks(run)} kept"


_FORMATTERS: dict[int, Formatter] = {
    EventType.RUN_STARTED: _started,
    EventType.EXECUTION_LEASED: _leased,
    EventType.EXECUTION_RELEASED: _with_message("handed back"),
    EventType.EXECUTION_FAILED: _with_message("attempt failed"),
    EventType.EXECUTION_TIMED_OUT: _with_message("attempt took too long"),
    EventType.LEASE_LOST: _with_message("its worker was lost"),
    EventType.STEP_POISONED: _with_message("is poison"),
    EventType.STEP_SUSPENDED: _with_message("waits"),
    EventType.STEP_WOKEN: _with_message("goes on"),
    EventType.CHILD_ENDED: _with_message("child run ended"),
    EventType.PLACE_CHANGED: _with_message("a run above it was deleted; the root is now"),
    EventType.RUN_JOINED: _with_message("a run joined"),
    EventType.RUN_LEFT: _with_message("a run left"),
    EventType.RUN_LET_GO: _with_message("its thread lets it work"),
    EventType.RUN_STEERED: _with_message("a start steered a run"),
    EventType.THREAD_WRITTEN: _with_message("its thread was written"),
    EventType.LETTERS_DELIVERED: _with_message("letters to other runs delivered"),
    EventType.WAIT_OPENED: _with_message("waits while it runs"),
    EventType.WAIT_EXPIRED: _with_message("no signal came in time"),
    EventType.SIGNAL_RECEIVED: _with_message("has a signal"),
    EventType.SIGNAL_TAKEN: _with_message("took a signal"),
    EventType.JOURNAL_RENEWED: _with_message("its journal begins anew"),
    EventType.JOURNAL_FORGOTTEN: _with_message("forgot a call"),
    EventType.OUTCOME_UNKNOWN: _with_message("nobody knows what came of it"),
    EventType.OUTCOME_RESOLVED: _with_message("it is known what came of it"),
    EventType.PLAN_ACCEPTED: _planned,
    EventType.PLAN_REJECTED: _with_message("plan refused"),
    EventType.TASK_COMPLETED: _completed,
    EventType.TASK_DEDUPLICATED: _deduplicated,
    EventType.TASK_FAILED: _with_message("failed"),
    EventType.TASK_RETRY_SCHEDULED: _retry,
    EventType.STEP_RETRY_SCHEDULED: _retry,
    EventType.REFLECTION_ACCEPTED: _with_message("decided"),
    EventType.QUESTION_ASKED: _with_message("asks"),
    EventType.QUESTION_ANSWERED: _with_message("was answered"),
    EventType.QUESTION_EXPIRED: _with_message("was not answered in time"),
    EventType.TASK_SKIPPED: _with_message("skipped"),
    EventType.GROUP_GATHERED: _with_message("its group has enough"),
    EventType.TASK_RETRY_REQUESTED: _with_message("is run again"),
    EventType.REPLAN_REQUESTED: _with_message("is planned again by a person's answer"),
    EventType.STOP_REQUESTED: _with_message("is to end after this iteration"),
    EventType.BUDGET_RAISED: _with_message("has a larger budget"),
    EventType.RUN_FORKED: _forked,
    EventType.RUN_BLOCKED: _blocked,
    EventType.RUN_PAUSED: _with_message("paused"),
    EventType.RUN_RESUMED: _with_message("goes on"),
    EventType.RUN_SUCCEEDED: _ended,
    EventType.RUN_FAILED: _ended,
    EventType.RUN_CANCELLED: _ended,
}
