"""ListCheckpoints: the commits of a run that have a name, each with the run as it was then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.core.records.events import Event
from stepwell.core.records.fold import run_after
from stepwell.core.records.model import Run
from stepwell.core.records.states import EventType
from stepwell.rpc.caller import tenant
from stepwell.rpc.orchestrator.history import History
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, size_of, token_of
from stepwell.rpc.orchestrator.reads import the_run
from stepwell.rpc.parts import Parts
from stepwell.wire import fill
from stepwell_client.v1 import orchestrator_pb2 as pb

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


class _Checkpoint(NamedTuple):
    event: Event
    run: Run


async def list_checkpoints(
    parts: Parts, history: History, request: pb.ListCheckpointsRequest
) -> pb.ListCheckpointsResponse:
    """Return a page of a run's checkpoints. Its token is the number of the last one's event."""
    tenant_id = tenant()
    run = await the_run(parts, request.run_id)
    cursor = cursor_of(tenant_id, request)
    after = int(cursor or "0")

    async def read(limit: int) -> tuple[Sequence[_Checkpoint], str]:
        found = await _find(history, run, after, limit + 1)
        if len(found) <= limit:
            return found, ""
        return found[:limit], str(found[limit - 1].event.number)

    async def show(one: _Checkpoint) -> pb.Checkpoint:
        shown = pb.Checkpoint(
            type=f"EVENT_TYPE_{one.event.type}",
            version=one.event.version,
            event=one.event.number,
            message=one.event.message,
        )
        shown.time.FromMicroseconds(one.event.time_us)
        fill(one.run, shown.run)
        return shown

    shown, end = await read_page(read, show, size_of(request))
    token = token_of(tenant_id, request, end)
    return pb.ListCheckpointsResponse(checkpoints=shown, next_page_token=token)


async def _find(history: History, run: Run, after: int, limit: int) -> list[_Checkpoint]:
    """Return the next `limit` checkpoints after that event, each with the run at its commit's end."""
    row = await history.run_at(run, after)
    found: list[Event] = []
    ends: dict[int, Run] = {}
    async for events in history.events(run, after):
        for event in events:
            if len(found) >= limit and event.version != found[-1].version:
                break
            row = run_after(row, event)
            ends[event.version] = row
            if event.type in NAMED:
                found.append(event)
                # Where a later page begins: within a commit, too.
                history.keep_run(run, row)
        ends = {event.version: ends[event.version] for event in found}
        if len(found) >= limit:
            break
    return [_Checkpoint(event, ends[event.version]) for event in found[:limit]]
