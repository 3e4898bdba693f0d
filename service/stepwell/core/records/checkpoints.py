"""Checkpoints: the named commits of a run, each with the run at that version.

Some also have a base: all rows that can still change, in a few bytes each. Folding starts there
instead of at the first event. Ended executions and questions never change again, so bases omit them
and all results; both are read by their ids.
"""

from __future__ import annotations

import zlib
from typing import TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from stepwell.core.records.events import RunChange
from stepwell.core.records.fold import Rows, set_fields
from stepwell.core.records.model import (
    AttemptCounts,
    Counts,
    Execution,
    Question,
    Run,
    RunSpec,
    Task,
    Usage,
)
from stepwell.core.records.record import Record
from stepwell.core.records.states import EventType

NAMED = frozenset(
    {
        EventType.RUN_STARTED,
        EventType.RUN_FORKED,
        EventType.PLAN_ACCEPTED,
        EventType.ITERATION_COMPLETED,
        EventType.RUN_RESUMED,
        EventType.RUN_SUCCEEDED,
        EventType.RUN_FAILED,
        EventType.RUN_CANCELLED,
    }
)
"""The events that give their commit a name."""

BASE_FORMAT = 1
"""The format of a base. A base of another format is ignored, because the events are enough."""

R = TypeVar("R", bound=Record)


class NamedEvent(Record, frozen=True, kw_only=True):
    """An event that gives its commit a name."""

    number: int
    type: EventType
    message: str = ""


class Growth(Record, frozen=True, kw_only=True):
    """The differences of a run's numbers from its previous checkpoint; below 0 if a number decreased."""

    version: int = 0
    """The version of the previous checkpoint. 0: there is none."""
    counts: Counts = Counts()
    attempts: AttemptCounts = AttemptCounts()
    usage: Usage = Usage()


class CheckpointState(Record, frozen=True, kw_only=True):
    """The run at a checkpoint."""

    last_event: int
    """The number of the commit's last event."""
    events: tuple[NamedEvent, ...]
    """Its naming events, in order."""
    run: RunChange = RunChange()
    """The fields of the run that differ from a run without events."""
    since: Growth = Growth()
    base_event: int = 0
    """`last_event` of the newest checkpoint with a base, this one included. 0: there is none."""


class Checkpoint(Record, frozen=True, kw_only=True):
    """A named commit."""

    version: int
    iteration: int
    """The iteration that the run is in after the commit."""
    created_us: int = 0
    """The moment of the commit, for people."""
    state: CheckpointState
    base: bytes = b""
    """All rows that can still change, see `base_of`. Empty: there is no base."""


class _Base(Record, frozen=True, kw_only=True):
    format: int
    tasks: tuple[Task, ...] = ()
    executions: tuple[Execution, ...] = ()
    questions: tuple[Question, ...] = ()


class _Format(Record, frozen=True, kw_only=True):
    format: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Base).decode
_format = msgspec.json.Decoder(_Format).decode


def base_of(rows: Rows) -> bytes:
    """Return the base of these rows: JSON in the records' own form, compressed by zlib.

    The rows are all tasks, and the executions and questions that are open.
    """
    base = _Base(
        format=BASE_FORMAT,
        tasks=tuple(task for _, task in sorted(rows.tasks.items())),
        executions=tuple(one for _, one in sorted(rows.executions.items())),
        questions=tuple(one for _, one in sorted(rows.questions.items())),
    )
    return zlib.compress(_encode(base), level=1)


def rows_of(spec: RunSpec, checkpoint: Checkpoint) -> Rows | None:
    """Return the rows of a checkpoint's base, or None if it has none or one of another format.

    Executions and questions that had ended by then are missing.
    """
    if not checkpoint.base:
        return None
    text = zlib.decompress(checkpoint.base)
    if _format(text).format != BASE_FORMAT:
        return None
    base = _decode(text)
    return Rows(
        run_of(spec, checkpoint),
        {task.task_id: task for task in base.tasks},
        {one.execution_id: one for one in base.executions},
        {one.question_id: one for one in base.questions},
    )


def run_of(spec: RunSpec, checkpoint: Checkpoint) -> Run:
    """Return the run's row as of a checkpoint."""
    state = checkpoint.state
    row = Run(spec=spec, version=checkpoint.version, last_event=state.last_event)
    return replace(row, **set_fields(state.run))


def moved_fields(run: Run) -> RunChange:
    """Return the fields of a run that differ from a run without events."""
    new = Run(spec=run.spec)
    names = (
        name for name in RunChange.__struct_fields__ if getattr(run, name) != getattr(new, name)
    )
    return RunChange(**{name: getattr(run, name) for name in names})


def growth_of(run: Run, before: Checkpoint | None) -> Growth:
    """Return the differences of the run's numbers from the previous checkpoint."""
    if before is None:
        return Growth(counts=run.counts, attempts=run.attempts, usage=run.usage)
    last = before.state.run
    return Growth(
        version=before.version,
        counts=_minus(run.counts, Counts() if last.counts is UNSET else last.counts),
        attempts=_minus(run.attempts, AttemptCounts() if last.attempts is UNSET else last.attempts),
        usage=_minus(run.usage, Usage() if last.usage is UNSET else last.usage),
    )


def _minus(after: R, before: R) -> R:
    """Return the differences of two records' numbers, without texts."""
    numbers = {name: getattr(after, name) for name in after.__struct_fields__}
    return type(after)(
        **{
            name: number - getattr(before, name)
            for name, number in numbers.items()
            if isinstance(number, int)
        }
    )
