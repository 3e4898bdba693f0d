"""StartRun."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.app.commands import carry_out, rehearse
from stepwell.app.start import (
    MAX_ITERATIONS_DEFAULT,
    MAX_PARALLEL_DEFAULT,
    QUEUE_DEFAULT,
    checked_version,
    start_command,
)
from stepwell.app.threads import in_thread, rehearse_in_thread, start_in_thread
from stepwell.core.loop.occurrences import Start, StartInThread
from stepwell.core.port import Principal
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Budget, RunSpec, TaskSpec
from stepwell.core.records.states import OnBusy
from stepwell.rpc.caller import caller
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.budgets import with_default
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.rpc.orchestrator.request_ids import fingerprint_of, run_id_of
from stepwell.rpc.step_kinds import step_kinds
from stepwell.wire.plans import read_plan_of
from stepwell.wire.records import to_record
from stepwell.wire.values import get_ms
from stepwell_client.v1 import orchestrator_pb2 as pb

_ON_BUSY = {
    pb.ON_BUSY_UNSPECIFIED: OnBusy.ENQUEUE,
    pb.ON_BUSY_ENQUEUE: OnBusy.ENQUEUE,
    pb.ON_BUSY_REJECT: OnBusy.REJECT,
    pb.ON_BUSY_INTERRUPT: OnBusy.INTERRUPT,
    pb.ON_BUSY_STEER: OnBusy.STEER,
}


def on_busy_of(request: pb.StartRunRequest | pb.ForkRunRequest) -> OnBusy:
    """Return what happens where another run of the thread works.

    Raises:
        InvalidArgument: it is given, and no thread.
    """
    if request.on_busy > pb.ON_BUSY_ENQUEUE and not request.thread_id:
        what = "needs a thread_id: it is for a thread of which another run works"
        raise InvalidArgument(f"on_busy {what}", (Violation("on_busy", what),))
    return _ON_BUSY[request.on_busy]


async def start_run(
    deps: Dependencies, presenter: RunPresenter, request: pb.StartRunRequest
) -> pb.StartRunResponse:
    """Start a run; answer after its first commit."""
    who = caller()
    on_busy = on_busy_of(request)
    run_id = (
        run_id_of(who.tenant_id, request.request_id)
        if request.request_id
        else deps.runtime.new_id()
    )
    plan = await read_plan_of(deps.runtime, request)
    command = _command(deps, who, run_id, request, plan)
    if request.thread_id:
        return await _start_in_thread(deps, presenter, request, in_thread(command, on_busy))
    if request.validate_only:
        rehearsal = await rehearse(deps.executor, who.tenant_id, run_id, command)
        return pb.StartRunResponse(run=await presenter.message(rehearsal.after))
    run, created = await carry_out(deps.executor, who.tenant_id, run_id, command)
    return pb.StartRunResponse(run=await presenter.message(run), created=created)


async def _start_in_thread(
    deps: Dependencies, presenter: RunPresenter, request: pb.StartRunRequest, command: StartInThread
) -> pb.StartRunResponse:
    """Start a run in its thread; answer once it is there."""
    if request.validate_only:
        run, _, steered = await rehearse_in_thread(deps.executor, command)
        return pb.StartRunResponse(run=await presenter.message(run), steered=steered)
    run, changed, steered = await start_in_thread(deps.executor, command)
    created = changed and not steered
    return pb.StartRunResponse(run=await presenter.message(run), created=created, steered=steered)


def _command(
    deps: Dependencies,
    who: Principal,
    run_id: str,
    request: pb.StartRunRequest,
    plan: tuple[TaskSpec, ...] | None,
) -> Start:
    asked: Budget = to_record(request.budget)
    spec = RunSpec(
        tenant_id=who.tenant_id,
        run_id=run_id,
        pipeline_id=request.pipeline_id,
        queue=request.queue or request.pipeline_id or QUEUE_DEFAULT,
        goal=request.goal,
        labels=dict(request.labels),
        executor_id=request.on_behalf_of,
        max_iterations=_or(request, "max_iterations", MAX_ITERATIONS_DEFAULT),
        max_parallel=_or(request, "max_parallel", MAX_PARALLEL_DEFAULT),
        priority=request.priority,
        budget=asked,
        no_progress_limit=_or(request, "no_progress_limit", limits.NO_PROGRESS_LIMIT_DEFAULT),
        step_retry=to_record(request.step_retry),
        worker_version=checked_version(to_record(request.worker_version)),
        step_timeout_ms=get_ms(request.step_timeout),
        start_delay_ms=get_ms(request.start_delay),
        reflect_on=tuple(dict.fromkeys(request.reflect_on)),
        thread_id=request.thread_id,
    )
    command = start_command(
        spec,
        run_input=to_record(request.input) if request.HasField("input") else None,
        plan=plan,
        stages=step_kinds(request.stages),
    )
    # The caller and the server's settings are not part of the request's meaning.
    spec = replace(
        spec,
        request_fingerprint=fingerprint_of(command) if request.request_id or spec.thread_id else "",
        executor_id=request.on_behalf_of or who.subject,
        budget=with_default(deps, who.tenant_id, asked),
    )
    return replace(command, spec=spec, actor=who.subject, on_behalf_of=request.on_behalf_of)


def _or(request: pb.StartRunRequest, field: str, default: int) -> int:
    return getattr(request, field) if request.HasField(field) else default
