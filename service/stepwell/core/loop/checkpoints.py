"""Makes the checkpoints of named commits, and decides which of them have a base.

A base costs as much as its rows, and saves folding the events before it. A checkpoint therefore has
one if the events since the last base outnumber the rows, which every replica counts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepwell.core.records.checkpoints import (
    NAMED,
    Checkpoint,
    CheckpointState,
    NamedEvent,
    base_of,
    growth_of,
    moved_fields,
)
from stepwell.core.records.events import Event
from stepwell.core.records.fold import Rows
from stepwell.core.records.model import Run

BASE_EVENTS_MIN = 512
"""The fewest events between two bases: as many as one read returns."""


def made(
    run: Run, events: Sequence[Event], before: Checkpoint | None, rows: Callable[[], Rows]
) -> Checkpoint | None:
    """Return the checkpoint of the commit with these events, or None if the commit has no name.

    `before` is the run's previous checkpoint; `rows` returns the rows that can still change after
    the commit.
    """
    named = [event for event in events if event.type in NAMED]
    if not named:
        return None
    base, base_event = b"", before.state.base_event if before is not None else 0
    since = run.last_event - base_event
    if since >= BASE_EVENTS_MIN and since >= _count(all_rows := rows()):
        base, base_event = base_of(all_rows), run.last_event
    return Checkpoint(
        version=run.version,
        iteration=run.iteration,
        created_us=events[-1].time_us,
        state=CheckpointState(
            last_event=run.last_event,
            events=tuple(
                NamedEvent(number=event.number, type=event.type, message=event.message)
                for event in named
            ),
            run=moved_fields(run),
            since=growth_of(run, before),
            base_event=base_event,
        ),
        base=base,
    )


def _count(rows: Rows) -> int:
    return len(rows.tasks) + len(rows.executions) + len(rows.questions)
