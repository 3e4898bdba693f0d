"""DeleteRun and PurgeRuns: remove ended runs by hand. A removed run has no events that name its
remover, so the server's log does.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.app import runs
from stepwell.app.retention import purge
from stepwell.core.port import EndedQuery
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.states import ENDED, RunStatus
from stepwell.logger import get_logger
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.wire.values import get_ms
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

log = get_logger(__name__)

RUNS_DEFAULT = 100


async def purge_runs(deps: Dependencies, request: pb.PurgeRunsRequest) -> pb.PurgeRunsResponse:
    """Remove ended runs of the tenant, the earliest ended first."""
    tenant_id, removed = tenant(), list[str]()

    def forget(tenant_id: str, run_id: str) -> None:
        deps.executor.forget(tenant_id, run_id)
        removed.append(run_id)

    query = EndedQuery(
        tenant_id=tenant_id,
        statuses=_ends(request),
        older_ms=get_ms(request.older_than),
        pipeline_id=request.pipeline_id,
        limit=request.max_runs or RUNS_DEFAULT,
    )
    try:
        purged = await purge(deps.executor, query, forget, rehearse=request.validate_only)
    finally:  # A call that fails or is cancelled has removed some of them.
        if removed:
            _log_removal(request.on_behalf_of, removed)
    return pb.PurgeRunsResponse(run_ids=purged.run_ids, complete=purged.complete)


async def delete_run(deps: Dependencies, request: pb.DeleteRunRequest) -> pb.DeleteRunResponse:
    """Remove an ended run."""
    await runs.delete_run(
        deps.executor,
        tenant(),
        request.run_id,
        expected_version=request.expected_version,
        validate_only=request.validate_only,
    )
    if not request.validate_only:
        _log_removal(request.on_behalf_of, [request.run_id])
    return pb.DeleteRunResponse()


def _log_removal(on_behalf_of: str, run_ids: Sequence[str]) -> None:
    who = caller()
    log.info(
        "runs were removed",
        actor=who.subject,
        on_behalf_of=on_behalf_of,
        tenant_id=who.tenant_id,
        count=len(run_ids),
        run_ids=" ".join(run_ids),
    )


def _ends(request: pb.PurgeRunsRequest) -> tuple[RunStatus, ...]:
    names = [types_pb2.RunStatus.Name(status) for status in request.statuses]
    statuses = tuple(RunStatus(name.removeprefix("RUN_STATUS_")) for name in names)
    for position, status in enumerate(statuses):
        if status not in ENDED:
            field = f"statuses[{position}]"
            what = f"{status} is no end; a run is purged once it SUCCEEDED, FAILED or is CANCELLED"
            raise InvalidArgument(f"{field}: {what}", (Violation(field, what),))
    return statuses or tuple(sorted(ENDED))
