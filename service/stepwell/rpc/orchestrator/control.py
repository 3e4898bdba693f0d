"""RetryTask, SkipTask, StopRun, RaiseBudget: what people change of a run on its way."""

from __future__ import annotations

from stepwell.core.loop.signals import RaiseBudget, RetryTask, SkipTask, Stop
from stepwell.rpc.orchestrator.commands import carry_out
from stepwell.rpc.orchestrator.requests import fingerprint_of
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import Parts
from stepwell.wire import to_record
from stepwell_client.v1 import orchestrator_pb2 as pb


async def retry_task(
    parts: Parts, shown: Shown, request: pb.RetryTaskRequest
) -> pb.RetryTaskResponse:
    """Run a failed or skipped task again, or one that waits for its back-off now."""
    command = RetryTask(
        request_id=request.request_id,
        fingerprint=fingerprint_of(request),
        reason=request.reason,
        task_id=request.task_id,
    )
    run, changed = await carry_out(parts, request.run_id, command)
    return pb.RetryTaskResponse(run=await shown.run(run), changed=changed)


async def skip_task(parts: Parts, shown: Shown, request: pb.SkipTaskRequest) -> pb.SkipTaskResponse:
    """Settle a task as SKIPPED."""
    command = SkipTask(
        request_id=request.request_id,
        fingerprint=fingerprint_of(request),
        reason=request.reason,
        task_id=request.task_id,
        skip_dependents=request.skip_dependents,
    )
    run, changed = await carry_out(parts, request.run_id, command)
    return pb.SkipTaskResponse(run=await shown.run(run), changed=changed)


async def stop_run(parts: Parts, shown: Shown, request: pb.StopRunRequest) -> pb.StopRunResponse:
    """End a run after the iteration in progress."""
    command = Stop(
        request_id=request.request_id, fingerprint=fingerprint_of(request), reason=request.reason
    )
    run, changed = await carry_out(parts, request.run_id, command)
    return pb.StopRunResponse(run=await shown.run(run), changed=changed)


async def raise_budget(
    parts: Parts, shown: Shown, request: pb.RaiseBudgetRequest
) -> pb.RaiseBudgetResponse:
    """Allow a run more."""
    command = RaiseBudget(
        request_id=request.request_id,
        fingerprint=fingerprint_of(request),
        reason=request.reason,
        budget=to_record(request.budget),
        resume=request.resume if request.HasField("resume") else True,
    )
    run, changed = await carry_out(parts, request.run_id, command)
    return pb.RaiseBudgetResponse(run=await shown.run(run), changed=changed)
