"""DeleteRun and PurgeRuns: runs that have ended, removed by hand."""

from __future__ import annotations

from stepwell.app import runs
from stepwell.app.retention import purge
from stepwell.core.port import EndedQuery
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.states import ENDED, RunStatus
from stepwell.rpc.caller import tenant
from stepwell.rpc.parts import Parts
from stepwell.wire.codec import get_ms
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

RUNS_DEFAULT = 100


async def purge_runs(parts: Parts, request: pb.PurgeRunsRequest) -> pb.PurgeRunsResponse:
    """Remove ended runs of the tenant, those that ended first before the others."""
    query = EndedQuery(
        tenant_id=tenant(),
        statuses=_ends(request),
        older_ms=get_ms(request.older_than),
        pipeline_id=request.pipeline_id,
        limit=request.max_runs or RUNS_DEFAULT,
    )
    purged = await purge(parts.store, query, parts.executor.forget, rehearse=request.validate_only)
    return pb.PurgeRunsResponse(
        run_ids=[one.run_id for one in purged.runs], complete=purged.complete
    )


async def delete_run(parts: Parts, request: pb.DeleteRunRequest) -> pb.DeleteRunResponse:
    """Remove a run that has ended."""
    await runs.delete_run(parts.executor, tenant(), request.run_id)
    return pb.DeleteRunResponse()


def _ends(request: pb.PurgeRunsRequest) -> tuple[RunStatus, ...]:
    names = [types_pb2.RunStatus.Name(status) for status in request.statuses]
    statuses = tuple(RunStatus(name.removeprefix("RUN_STATUS_")) for name in names)
    for position, status in enumerate(statuses):
        if status not in ENDED:
            field = f"statuses[{position}]"
            what = f"{status} is no end; a run is purged once it SUCCEEDED, FAILED or is CANCELLED"
            raise InvalidArgument(f"{field}: {what}", (Violation(field, what),))
    return statuses or tuple(sorted(ENDED))
