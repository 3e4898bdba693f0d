"""Rows of the task tree: a run's steps and tasks, in order, and those that have room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from stepwell.cli.view import describe
from stepwell.cli.view.describe import Sign
from stepwell.cli.view.text import count, micros, one_line, short_id, span, span_us
from stepwell_client import Execution, ExecutionStatus, RunTask, RunView, StepKind, TaskStatus

_INDENT_MAX = 5
_OPEN = (ExecutionStatus.READY, ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME)
_LATEST = 5
"""The number of last-ended rows that are shown before rows still to come."""
_KIND_ORDER = {
    StepKind.PLAN: 0,
    StepKind.TASK: 1,
    StepKind.RECONCILE: 2,
    StepKind.REFLECT: 3,
    StepKind.SYNTHESIZE: 4,
}
_RANK: dict[int, int] = {
    TaskStatus.RUNNING: 0,
    TaskStatus.FAILED: 0,
    TaskStatus.BLOCKED: 0,
    TaskStatus.READY: 2,
    TaskStatus.PENDING: 3,
    TaskStatus.COMPLETED: 4,
    TaskStatus.SKIPPED: 5,
    TaskStatus.CANCELLED: 5,
}
"""The order in which rows are chosen where not all have room."""


class Reports(NamedTuple):
    """Reports on attempts under way that no event brings, by execution id."""

    said: Mapping[str, str] = MappingProxyType({})
    """The progress of each, and the last that it wrote."""
    gone: Mapping[str, int] = MappingProxyType({})
    """The moment at which a worker that isn't connected was missed first."""


NO_REPORTS = Reports()


class Row(NamedTuple):
    """A line of the tree."""

    order: tuple[int, int, int]
    rank: int
    indent: int
    sign: Sign
    name: str
    title: str
    took_us: int
    note: str
    ended_us: int = 0
    kind: str = ""
    """The status that it is counted under where it is left out."""


def rows(view: RunView, now_us: int, reports: Reports = NO_REPORTS) -> list[Row]:
    """Return all rows, in order."""
    made = [_step_row(view, one, now_us, reports) for one in _last_attempts(view)]
    attempts = {
        one.task_id: one
        for one in view.executions.values()
        if one.kind == StepKind.TASK and one.status in _OPEN
    }
    for place, (task_id, indent) in enumerate(_nested(view)):
        task = view.tasks[task_id]
        iteration = view.iterations.get(task.revision, view.run.iteration)
        order = (iteration, _KIND_ORDER[StepKind.TASK], place)
        made.append(_task_row(view, task, attempts.get(task_id), order, indent, now_us, reports))
    return sorted(made, key=lambda row: row.order)


def chosen(all_rows: Sequence[Row], rows_max: int) -> tuple[list[Row], str]:
    """Return the rows that have room, and a line that counts the others."""
    if len(all_rows) <= rows_max:
        return list(all_rows), ""
    latest = sorted((row.ended_us for row in all_rows), reverse=True)[:_LATEST][-1] or 1
    ranked = sorted(
        all_rows,
        key=lambda row: (min(row.rank, 1) if row.ended_us >= latest else row.rank, row.order),
    )
    kept = sorted(ranked[: max(1, rows_max - 1)], key=lambda row: row.order)
    left: dict[str, int] = {}
    for row in ranked[max(1, rows_max - 1) :]:
        left[row.kind] = left.get(row.kind, 0) + 1
    return kept, "… and " + ", ".join(f"{number:,} {kind}" for kind, number in left.items())


def _last_attempts(view: RunView) -> list[Execution]:
    """Return the newest attempt at each PLAN, REFLECT, SYNTHESIZE and RECONCILE step."""
    last: dict[tuple[int, int, str], Execution] = {}
    for one in view.executions.values():
        if one.kind == StepKind.TASK:
            continue
        key = (one.iteration, one.kind, one.task_id)
        if key not in last or last[key].attempt <= one.attempt:
            last[key] = one
    return list(last.values())


def _step_row(view: RunView, one: Execution, now_us: int, reports: Reports) -> Row:
    sign, rank, kind = describe.FAILED, 0, "failed"
    if one.status == ExecutionStatus.COMPLETED:
        sign, rank, kind = describe.DONE, 1, "completed"
    elif one.status == ExecutionStatus.LEASED:
        sign, rank, kind = _running_sign(one, reports), 0, "running"
    elif one.status == ExecutionStatus.READY:
        sign, rank, kind = describe.READY, 0, "ready"
    elif one.status in (ExecutionStatus.RELEASED, ExecutionStatus.CANCELLED):
        sign, rank, kind = describe.SKIPPED, 3, "handed back"
    began, ended = micros(one.leased_time), micros(one.ended_time)
    decision = one_line(view.decisions.get(one.id, ""))
    note = describe.failure(one.failure) or decision
    if sign is describe.READY and one.attempt > 1:
        note = _again(one, now_us)
    elif one.status == ExecutionStatus.LEASED:
        note = _running_note(one, now_us, reports)
    return Row(
        order=(one.iteration, _KIND_ORDER.get(one.kind, 9), 0),
        rank=rank,
        indent=0,
        sign=sign,
        name=one_line(f"{describe.STEP_NAMES.get(one.kind, str(one.kind))} {one.task_id}".rstrip()),
        title="",
        took_us=(ended or now_us) - began if began else 0,
        note=_with_attempt(note, describe.attempt_of(view, one)),
        ended_us=ended,
        kind=kind,
    )


def _task_row(
    view: RunView,
    task: RunTask,
    attempt: Execution | None,
    order: tuple[int, int, int],
    indent: int,
    now_us: int,
    reports: Reports,
) -> Row:
    title = one_line(task.definition.title, 80)
    last = view.executions.get(f"task:{task.id}#{task.attempts}")
    began, ended = micros(task.started_time), micros(task.ended_time)
    # A cancelled task has only the start of its last attempt.
    known = ended or task.status not in (TaskStatus.PENDING, TaskStatus.CANCELLED)
    took = (ended or now_us) - began if began and known else 0
    sign = describe.TASK_SIGNS.get(task.status, describe.PENDING)
    if task.status == TaskStatus.RUNNING and attempt is not None:
        sign = _running_sign(attempt, reports)
    return Row(
        order=order,
        rank=_RANK.get(task.status, 4),
        indent=indent,
        sign=sign,
        name=one_line(task.id),
        title=title,
        took_us=took,
        note=_with_attempt(
            _task_note(view, task, attempt, now_us, reports),
            describe.attempt_of(view, last) if last is not None else task.attempts,
        ),
        ended_us=ended,
        kind=task.status.name.lower(),
    )


def _task_note(
    view: RunView,
    task: RunTask,
    attempt: Execution | None,
    now_us: int,
    reports: Reports,
) -> str:
    if task.key_run_id:
        return describe.has_key(task.key_run_id)
    if task.status == TaskStatus.PENDING:
        return _waits_for(view, task)
    if task.status == TaskStatus.READY and attempt is not None:
        return _again(attempt, now_us)
    if task.status == TaskStatus.RUNNING and attempt is not None:
        return _running_note(attempt, now_us, reports)
    if task.status == TaskStatus.BLOCKED:
        if attempt is not None and attempt.status == ExecutionStatus.UNKNOWN_OUTCOME:
            return describe.unknown(attempt, now_us)
        return describe.task_waits(view, task)
    if task.deduplicated_from:
        return describe.deduplicated(task.deduplicated_from)
    if task.result_run_id:
        return f"kept from {short_id(task.result_run_id)}"
    return describe.failure(task.failure)


def _running_sign(attempt: Execution, reports: Reports) -> Sign:
    return describe.LOST if attempt.id in reports.gone else describe.RUNNING


def _running_note(attempt: Execution, now_us: int, reports: Reports) -> str:
    missed_us = reports.gone.get(attempt.id)
    if missed_us is not None:
        return f"its worker is gone, for {span(now_us - missed_us)}"
    return reports.said.get(attempt.id, "")


def _again(attempt: Execution, now_us: int) -> str:
    """Return the time until a step's next attempt."""
    delay_us = span_us(attempt.delay)
    left = micros(attempt.offered_time) + delay_us - now_us
    return f"again in {span(left)}" if delay_us and left > 0 else "ready for a worker"


def _waits_for(view: RunView, task: RunTask) -> str:
    settled = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.SKIPPED)
    names = [
        one
        for one in task.definition.depends_on
        if one not in view.tasks or view.tasks[one].status not in settled
    ]
    if not names:
        return ""
    more = f" and {count(len(names) - 2, 'other')}" if len(names) > 2 else ""
    return f"after {', '.join(one_line(name) for name in names[:2])}{more}"


def _with_attempt(note: str, attempt: int) -> str:
    if attempt <= 1:
        return note
    return f"attempt {attempt}: {note}" if note else f"attempt {attempt}"


def _nested(view: RunView) -> Iterator[tuple[str, int]]:
    """Yield task ids with their indents: a task stands below the last one that it depends on."""
    places = {task_id: place for place, task_id in enumerate(view.tasks)}
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    for task_id, task in view.tasks.items():
        above = [
            one
            for one in task.definition.depends_on
            if one in places and view.tasks[one].revision == task.revision and one != task_id
        ]
        if above:
            children.setdefault(max(above, key=places.__getitem__), []).append(task_id)
        else:
            roots.append(task_id)
    stack = [(task_id, 0) for task_id in reversed(roots)]
    while stack:
        task_id, depth = stack.pop()
        yield task_id, min(depth, _INDENT_MAX)
        stack += [(child, depth + 1) for child in reversed(children.get(task_id, []))]
