"""ListCheckpoints: the commits of a run that have a name, each with the run as it was then."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.app.checkpoints import Checkpoint, read_checkpoints
from stepwell.app.history import History
from stepwell.app.runs import read_run
from stepwell.rpc.caller import tenant
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, size_of, token_of
from stepwell.rpc.parts import Parts
from stepwell.wire import fill
from stepwell_client.v1 import orchestrator_pb2 as pb


async def list_checkpoints(
    parts: Parts, history: History, request: pb.ListCheckpointsRequest
) -> pb.ListCheckpointsResponse:
    """Return a page of a run's checkpoints. Its token is the number of the last one's event."""
    tenant_id = tenant()
    run = await read_run(parts.store, tenant(), request.run_id)
    cursor = cursor_of(tenant_id, request)
    after = int(cursor or "0")

    async def read(limit: int) -> tuple[Sequence[Checkpoint], str]:
        page = await read_checkpoints(history, run, after, limit + 1)
        if len(page) <= limit:
            return page, ""
        return page[:limit], str(page[limit - 1].event.number)

    async def show(one: Checkpoint) -> pb.Checkpoint:
        message = pb.Checkpoint(
            type=f"EVENT_TYPE_{one.event.type}",
            version=one.event.version,
            event=one.event.number,
            message=one.event.message,
        )
        message.time.FromMicroseconds(one.event.time_us)
        fill(one.run, message.run)
        return message

    checkpoints, end = await read_page(read, show, size_of(request))
    token = token_of(tenant_id, request, end)
    return pb.ListCheckpointsResponse(checkpoints=checkpoints, next_page_token=token)
