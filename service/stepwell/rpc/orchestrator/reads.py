"""GetRun, WaitRun, GetServerInfo: what is read at once, or waited for."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import cast

from stepwell.core import limits
from stepwell.core.errors import RunNotFound
from stepwell.core.model import Run
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.gate import draining
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import Parts, server_version
from stepwell.watch import watch_run
from stepwell.wire import fill
from stepwell.wire.codec import get_ms
from stepwell_client.v1 import orchestrator_pb2 as pb

WAIT_MS_DEFAULT = 60_000


async def the_run(parts: Parts, run_id: str) -> Run:
    """Return the caller's run.

    Raises:
        RunNotFound: there is none of this id, or it is another tenant's.
    """
    run = await parts.store.get_run(tenant(), run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run


async def get_run(parts: Parts, shown: Shown, request: pb.GetRunRequest) -> pb.GetRunResponse:
    """Return a run as of its last commit."""
    return pb.GetRunResponse(run=await shown.run(await the_run(parts, request.run_id)))


async def wait_run(parts: Parts, shown: Shown, request: pb.WaitRunRequest) -> pb.WaitRunResponse:
    """Return a run when it has ended, or when the time is over."""
    timeout_ms = get_ms(request.timeout) if request.HasField("timeout") else WAIT_MS_DEFAULT
    run = await the_run(parts, request.run_id)
    if not run.ended and timeout_ms > 0:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await _its_end(parts, run)
        except TimeoutError:
            pass
        run = await the_run(parts, request.run_id)
    return pb.WaitRunResponse(run=await shown.run(run), ended=run.ended)


async def _its_end(parts: Parts, run: Run) -> None:
    batches = watch_run(
        parts.store,
        parts.bells,
        parts.runtime,
        tenant_id=run.spec.tenant_id,
        run_id=run.spec.run_id,
        after=run.last_event,
        progress_ms=parts.settings.watch.progress_ms,
    )
    async with aclosing(batches) as seen:
        async for batch in seen:
            if batch.ended:
                return
    raise draining()


def get_server_info(parts: Parts) -> pb.GetServerInfoResponse:
    """Say what this server is and who calls."""
    who = caller()
    response = pb.GetServerInfoResponse(
        version=server_version(),
        limits=_limits(),
        subject=who.subject,
        tenant_id=who.tenant_id,
        scopes=sorted(who.scopes),
        replica_id=parts.executor.replica_id,
    )
    fill(parts.store_info, response.store)
    response.server_time.FromMicroseconds(parts.runtime.now_us())
    return response


def _limits() -> dict[str, int]:
    values = cast("dict[str, object]", vars(limits))
    return {
        name.lower(): value
        for name, value in values.items()
        if name.isupper() and isinstance(value, int)
    }
