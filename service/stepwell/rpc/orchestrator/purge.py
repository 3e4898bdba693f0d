"""PurgeRuns: what ended some time ago, removed by hand."""

from __future__ import annotations

from stepwell.app.retention import remove
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
    most = request.max_runs or RUNS_DEFAULT
    query = EndedQuery(
        tenant_id=tenant(),
        statuses=_ends(request),
        older_ms=get_ms(request.older_than),
        pipeline_id=request.pipeline_id,
        limit=most + 1,  # The one too many says that there are more.
    )
    found = list(await parts.store.list_ended(query))
    complete, found = len(found) <= most, found[:most]
    if not request.validate_only:
        removed = await remove(parts.store, found, parts.executor.forget)
        complete = complete and len(removed) == len(found)
        found = removed
    return pb.PurgeRunsResponse(run_ids=[one.run_id for one in found], complete=complete)


def _ends(request: pb.PurgeRunsRequest) -> tuple[RunStatus, ...]:
    names = [types_pb2.RunStatus.Name(status) for status in request.statuses]
    statuses = tuple(RunStatus(name.removeprefix("RUN_STATUS_")) for name in names)
    for position, status in enumerate(statuses):
        if status not in ENDED:
            field = f"statuses[{position}]"
            what = f"{status} is no end; a run is purged once it SUCCEEDED, FAILED or is CANCELLED"
            raise InvalidArgument(f"{field}: {what}", (Violation(field, what),))
    return statuses or tuple(sorted(ENDED))
