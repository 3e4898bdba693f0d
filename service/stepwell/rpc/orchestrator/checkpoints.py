"""ListCheckpoints: the named commits of a run, each with the run at that version."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.app.checkpoints import Named, read_checkpoints
from stepwell.app.runs import read_run
from stepwell.core.records.checkpoints import run_of
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, size_of, token_of
from stepwell.wire.records import fill
from stepwell_client.v1 import orchestrator_pb2 as pb


async def list_checkpoints(
    deps: Dependencies, request: pb.ListCheckpointsRequest
) -> pb.ListCheckpointsResponse:
    """Return a page of a run's checkpoints."""
    tenant_id = tenant()
    run = await read_run(deps.store, tenant_id, request.run_id)
    cursor = cursor_of(tenant_id, request)

    async def read(limit: int) -> tuple[Sequence[Named], str]:
        return await read_checkpoints(deps.store, tenant_id, request.run_id, cursor, limit)

    async def show(one: Named) -> pb.Checkpoint:
        event, checkpoint = one
        message = pb.Checkpoint(
            type=f"EVENT_TYPE_{event.type}",
            version=checkpoint.version,
            event=event.number,
            message=event.message,
        )
        message.time.FromMicroseconds(checkpoint.created_us)
        fill(run_of(run.spec, checkpoint), message.run)
        return message

    checkpoints, end = await read_page(read, show, size_of(request))
    token = token_of(tenant_id, request, end)
    return pb.ListCheckpointsResponse(checkpoints=checkpoints, next_page_token=token)
