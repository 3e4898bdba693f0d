"""GetRun, WaitRun, GetServerInfo."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

from stepwell.app.history import History
from stepwell.app.runs import read_run
from stepwell.core.records import limits
from stepwell.rpc.admission import draining
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.rpc.version import FEATURES, PROTOCOL_REVISION, server_version
from stepwell.watch.runs import wait_end
from stepwell.wire.records import fill, to_message
from stepwell.wire.values import get_ms
from stepwell_client.v1 import orchestrator_pb2 as pb

WAIT_MS_DEFAULT = 60_000


async def get_run(
    deps: Dependencies, presenter: RunPresenter, history: History, request: pb.GetRunRequest
) -> pb.GetRunResponse:
    """Return a run as of its last commit, or of the requested version."""
    run = await read_run(deps.store, tenant(), request.run_id)
    if request.version in (0, run.version):
        return pb.GetRunResponse(run=await presenter.message(run))
    rows = await history.rows_at(run, request.version)
    # With the stored reason for waiting, because the workers of that time are no longer known.
    return pb.GetRunResponse(run=to_message(rows.run))


async def wait_run(
    deps: Dependencies, presenter: RunPresenter, request: pb.WaitRunRequest
) -> pb.WaitRunResponse:
    """Return a run when it has ended, or after the requested time."""
    timeout_ms = get_ms(request.timeout) if request.HasField("timeout") else WAIT_MS_DEFAULT
    ended = None
    if timeout_ms > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1_000):
                ended = await wait_end(
                    deps.store, deps.notifier, tenant_id=tenant(), run_id=request.run_id
                )
                if ended is None:
                    raise draining()
    run = ended or await read_run(deps.store, tenant(), request.run_id)
    return pb.WaitRunResponse(run=await presenter.message(run), ended=run.ended)


def get_server_info(deps: Dependencies) -> pb.GetServerInfoResponse:
    """Return a description of this server and of the caller."""
    who = caller()
    response = pb.GetServerInfoResponse(
        version=server_version(),
        protocol_revision=PROTOCOL_REVISION,
        features=FEATURES,
        limits=_limits(),
        subject=who.subject,
        tenant_id=who.tenant_id,
        scopes=sorted(who.scopes),
        replica_id=deps.executor.replica_id,
        console_address=deps.console_address,
    )
    fill(deps.store_info, response.store)
    response.server_time.FromMicroseconds(deps.runtime.now_us())
    return response


def _limits() -> dict[str, int]:
    values = cast("dict[str, object]", vars(limits))
    return {
        name.lower(): value
        for name, value in values.items()
        if name.isupper() and isinstance(value, int)
    }
