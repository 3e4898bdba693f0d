"""ResumeRun, PauseRun, CancelRun, StopRun, SendSignal, RetryTask, SkipTask, RaiseBudget: steer a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from stepwell.app.commands import carry_out, rehearse
from stepwell.core.loop.occurrences import (
    AnyCommand,
    Cancel,
    Command,
    Pause,
    RaiseBudget,
    Resolve,
    Resume,
    RetryTask,
    SendSignal,
    SkipTask,
    Stop,
)
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.rpc.orchestrator.request_ids import fingerprint_of
from stepwell.wire.records import to_record
from stepwell_client.v1 import orchestrator_pb2 as pb

C = TypeVar("C", bound=Command)
R = TypeVar("R")


async def resume_run(
    deps: Dependencies, presenter: RunPresenter, request: pb.ResumeRunRequest
) -> pb.ResumeRunResponse:
    """Continue a run, and have its leases checked soon."""
    command = Resume(
        retry_failed=not request.leave_failed,
        **common_fields(request),
    )
    response = await steer(deps, presenter, request, command, pb.ResumeRunResponse)
    deps.executor.wake()
    return response


async def pause_run(
    deps: Dependencies, presenter: RunPresenter, request: pb.PauseRunRequest
) -> pb.PauseRunResponse:
    """Stop dispatching a run's steps."""
    command = Pause(**common_fields(request))
    return await steer(deps, presenter, request, command, pb.PauseRunResponse)


async def cancel_run(
    deps: Dependencies, presenter: RunPresenter, request: pb.CancelRunRequest
) -> pb.CancelRunResponse:
    """Cancel a run for good."""
    command = Cancel(**common_fields(request))
    return await steer(deps, presenter, request, command, pb.CancelRunResponse)


async def stop_run(
    deps: Dependencies, presenter: RunPresenter, request: pb.StopRunRequest
) -> pb.StopRunResponse:
    """End a run after the iteration in progress."""
    command = Stop(**common_fields(request))
    return await steer(deps, presenter, request, command, pb.StopRunResponse)


async def send_signal(
    deps: Dependencies, presenter: RunPresenter, request: pb.SendSignalRequest
) -> pb.SendSignalResponse:
    """Send a run a signal."""
    value = to_record(request.value) if request.HasField("value") else None
    command = SendSignal(name=request.name, value=value, **common_fields(request))
    return await steer(deps, presenter, request, command, pb.SendSignalResponse)


async def retry_task(
    deps: Dependencies, presenter: RunPresenter, request: pb.RetryTaskRequest
) -> pb.RetryTaskResponse:
    """Run a failed or skipped task again, or end a task's back-off now."""
    command = RetryTask(task_id=request.task_id, fresh=request.fresh, **common_fields(request))
    return await steer(deps, presenter, request, command, pb.RetryTaskResponse)


async def skip_task(
    deps: Dependencies, presenter: RunPresenter, request: pb.SkipTaskRequest
) -> pb.SkipTaskResponse:
    """Settle a task as SKIPPED."""
    command = SkipTask(
        task_id=request.task_id,
        skip_dependents=request.skip_dependents,
        **common_fields(request),
    )
    return await steer(deps, presenter, request, command, pb.SkipTaskResponse)


async def raise_budget(
    deps: Dependencies, presenter: RunPresenter, request: pb.RaiseBudgetRequest
) -> pb.RaiseBudgetResponse:
    """Raise a run's budget."""
    command = RaiseBudget(
        budget=to_record(request.budget),
        resume=not request.stay_paused,
        **common_fields(request),
    )
    return await steer(deps, presenter, request, command, pb.RaiseBudgetResponse)


async def steer(
    deps: Dependencies,
    presenter: RunPresenter,
    request: Any,
    command: AnyCommand,
    response: Callable[..., R],
) -> R:
    """Send a command to a run of the caller's tenant, or only check it; return the run in this response."""
    called = as_called(command, request.request_id)
    if request.validate_only:
        rehearsal = await rehearse(deps.executor, tenant(), request.run_id, called)
        return response(run=await presenter.message(rehearsal.before or rehearsal.after))
    run, changed = await carry_out(deps.executor, tenant(), request.run_id, called)
    return response(run=await presenter.message(run), changed=changed)


def as_called(command: C, request_id: str) -> C:
    """Return a command with its caller, its request id and the fingerprint of its meaning."""
    # The journal's entries are not part of the request's meaning.
    meant = replace(command, begun=()) if isinstance(command, Resolve) else command
    fingerprint = fingerprint_of(meant) if request_id else ""
    return replace(command, actor=caller().subject, request_id=request_id, fingerprint=fingerprint)


def common_fields(request: Any, on_behalf_of: str | None = None) -> dict[str, Any]:
    """Return the common fields of a command; by default `on_behalf_of` comes from the request."""
    return {
        "on_behalf_of": request.on_behalf_of if on_behalf_of is None else on_behalf_of,
        "reason": request.reason,
        "expected_version": request.expected_version,
    }
