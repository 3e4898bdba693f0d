"""ResumeRun, PauseRun, CancelRun, DeleteRun: what people do to a run that is there."""

from __future__ import annotations

from stepwell.core.loop.advance import advance
from stepwell.core.loop.signals import (
    AnyCommand,
    Cancel,
    Context,
    Pause,
    ReplyStatus,
    Resume,
)
from stepwell.core.loop.state import RunState
from stepwell.core.records.errors import FailedPrecondition, RunNotFound, StoreUnavailable
from stepwell.core.records.model import Run
from stepwell.rpc.caller import tenant
from stepwell.rpc.orchestrator.requests import fingerprint_of
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import Parts
from stepwell.rpc.status import raise_refused
from stepwell_client.v1 import orchestrator_pb2 as pb

_DELETE_ATTEMPTS_MAX = 10


async def resume_run(
    parts: Parts, shown: Shown, request: pb.ResumeRunRequest
) -> pb.ResumeRunResponse:
    """Let a run go on; a live one gains a prompt look at its leases."""
    command = Resume(
        request_id=request.request_id,
        fingerprint=fingerprint_of(request),
        reason=request.reason,
        retry_failed=request.retry_failed if request.HasField("retry_failed") else True,
    )
    if request.validate_only:
        run = await _rehearse(parts, request.run_id, command)
        return pb.ResumeRunResponse(run=await shown.run(run))
    run, changed = await carry_out(parts, request.run_id, command)
    parts.executor.wake()
    return pb.ResumeRunResponse(run=await shown.run(run), changed=changed)


async def pause_run(parts: Parts, shown: Shown, request: pb.PauseRunRequest) -> pb.PauseRunResponse:
    """Dispatch nothing more of a run."""
    command = Pause(
        request_id=request.request_id, fingerprint=fingerprint_of(request), reason=request.reason
    )
    run, changed = await carry_out(parts, request.run_id, command)
    return pb.PauseRunResponse(run=await shown.run(run), changed=changed)


async def cancel_run(
    parts: Parts, shown: Shown, request: pb.CancelRunRequest
) -> pb.CancelRunResponse:
    """End a run for good."""
    command = Cancel(
        request_id=request.request_id, fingerprint=fingerprint_of(request), reason=request.reason
    )
    run, changed = await carry_out(parts, request.run_id, command)
    return pb.CancelRunResponse(run=await shown.run(run), changed=changed)


async def delete_run(parts: Parts, request: pb.DeleteRunRequest) -> pb.DeleteRunResponse:
    """Remove a run that has ended."""
    tenant_id, run_id = tenant(), request.run_id
    for _ in range(_DELETE_ATTEMPTS_MAX):
        run = await _the_run(parts, tenant_id, run_id)
        if not run.ended:
            raise FailedPrecondition(
                f"the run is {run.status.lower()}; cancel it first", reason="RUN_NOT_ENDED"
            )
        # False: it was resumed or deleted between the two.
        if await parts.store.delete_run(tenant_id, run_id, version=run.version):
            parts.executor.forget(tenant_id, run_id)
            return pb.DeleteRunResponse()
    raise StoreUnavailable("the run changes all the while; try again")


async def carry_out(parts: Parts, run_id: str, command: AnyCommand) -> tuple[Run, bool]:
    """Have the loop do it; return the run afterwards, and whether it was changed by this call."""
    reply = await parts.executor.send(tenant(), run_id, command)
    return raise_refused(reply), reply.status is ReplyStatus.ACCEPTED


async def _rehearse(parts: Parts, run_id: str, command: AnyCommand) -> Run:
    """Do all of it but the commit; returns the run as it is."""
    loaded = await parts.store.load(tenant(), run_id)
    if loaded is None:
        raise RunNotFound(run_id)
    context = Context(
        now_us=loaded.now_us or parts.runtime.now_us(),
        seed=0,
        lease_ms=parts.settings.executor.lease_ms,
    )
    transition = advance(RunState.of(loaded), [command], context)
    raise_refused(transition.replies[0])
    return loaded.run


async def _the_run(parts: Parts, tenant_id: str, run_id: str) -> Run:
    run = await parts.store.get_run(tenant_id, run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run
