"""Makes the checkpoint of a commit that has a name, and decides when one has a base.

A base costs as much as its rows, and saves the folding of the events before it. So there is one where the
events since the last base outweigh it, counted in events and rows: every replica counts the same.
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
"""Events since the last base below which there is no other: one read returns so many."""


def made(
    run: Run, events: Sequence[Event], before: Checkpoint | None, rows: Callable[[], Rows]
) -> Checkpoint | None:
    """Return the checkpoint of the commit with these events; None: it has no name.

    `before` is the run's checkpoint before, `rows` returns those that can still change after the commit.
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
