"""Checkpoints: the commits of a run that have a name, each with the run as it was then."""

from __future__ import annotations

from typing import NamedTuple

from stepwell.app.history import History
from stepwell.core.records.events import Event
from stepwell.core.records.fold import run_after
from stepwell.core.records.model import Run
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


class Checkpoint(NamedTuple):
    """An event that names its commit, and the run at the commit's end."""

    event: Event
    run: Run


async def read_checkpoints(history: History, run: Run, after: int, limit: int) -> list[Checkpoint]:
    """Return the next `limit` checkpoints after that event."""
    row = await history.run_at(run, after)
    named: list[Event] = []
    ends: dict[int, Run] = {}
    async for events in history.events(run, after):
        for event in events:
            if len(named) >= limit and event.version != named[-1].version:
                break
            row = run_after(row, event)
            ends[event.version] = row
            if event.type in NAMED:
                named.append(event)
                # Where a later page begins: within a commit, too.
                history.remember_run(run, row)
        ends = {event.version: ends[event.version] for event in named}
        if len(named) >= limit:
            break
    return [Checkpoint(event, ends[event.version]) for event in named[:limit]]
