"""Folds events into rows: a run's events up to a version give its rows at that version.

It has no rules of the loop, so a reader in another language needs only these few lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import astuple, replace

from stepwell.core.records.events import Event, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.model import Execution, Plan, Question, Record, Run, RunSpec, Task
from stepwell.core.records.states import StepKind

R = TypeVar("R", bound=Record)


class Rows(NamedTuple):
    """A run's rows at one version, without leases and without moments stamped by a store."""

    run: Run
    tasks: dict[str, Task]
    executions: dict[str, Execution]
    questions: dict[str, Question]


def empty_rows(spec: RunSpec) -> Rows:
    """Return the rows of a run before its first event."""
    return Rows(Run(spec=spec), {}, {}, {})


def copy_of(rows: Rows) -> Rows:
    """Return a copy of rows, to fold further events into."""
    return Rows(rows.run, dict(rows.tasks), dict(rows.executions), dict(rows.questions))


def fold(spec: RunSpec, plans: Mapping[int, Plan], events: Iterable[Event]) -> Rows:
    """Return the rows of a run of this spec after these events, which begin with its first."""
    return fold_on(empty_rows(spec), plans, events)


def fold_on(rows: Rows, plans: Mapping[int, Plan], events: Iterable[Event]) -> Rows:
    """Return the rows after further events; changes the given rows."""
    for event in events:
        rows = _apply(rows, plans, event)
    return rows


def _run_after(run: Run, event: Event) -> Run:
    changed = {} if isinstance(event.run, UnsetType) else set_fields(event.run)
    return replace(run, version=event.version, last_event=event.number, **changed)


def _apply(rows: Rows, plans: Mapping[int, Plan], event: Event) -> Rows:
    run = _run_after(rows.run, event)
    if event.plan_revision:
        for spec in plans[event.plan_revision].tasks:
            new = Task(task_id=spec.task_id, revision=event.plan_revision)
            rows.tasks.setdefault(spec.task_id, new)
    for task_change in event.tasks:
        rows.tasks[task_change.task_id] = _changed(rows.tasks[task_change.task_id], task_change)
    for change in event.executions:
        before = rows.executions.get(change.execution_id)
        if before is None:
            before = Execution(execution_id=change.execution_id, kind=_kind(change))
        rows.executions[change.execution_id] = _changed(before, change)
    for question in event.questions:
        rows.questions[question.question_id] = question
    return Rows(run, rows.tasks, rows.executions, rows.questions)


def _kind(change: ExecutionChange) -> StepKind:
    if isinstance(change.kind, UnsetType):
        raise TypeError(f"the log misses the creation of {change.execution_id}")
    return change.kind


def _changed(row: R, change: TaskChange | ExecutionChange) -> R:
    return replace(row, **set_fields(change))


def set_fields(change: RunChange | TaskChange | ExecutionChange) -> dict[str, Any]:
    """Return the set fields of a change."""
    values = zip(change.__struct_fields__, astuple(change), strict=True)
    return {name: value for name, value in values if value is not UNSET}
