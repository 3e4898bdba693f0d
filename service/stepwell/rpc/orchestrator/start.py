"""StartRun."""

from __future__ import annotations

from stepwell.core.loop.advance import advance
from stepwell.core.loop.signals import Context, ReplyStatus, Start
from stepwell.core.loop.state import RunState
from stepwell.core.port import Principal
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Budget, Run, RunSpec
from stepwell.core.records.states import StepKind
from stepwell.rpc.caller import caller
from stepwell.rpc.orchestrator.budgets import with_default
from stepwell.rpc.orchestrator.requests import fingerprint_of, run_id_of
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import QUEUE_DEFAULT, Parts
from stepwell.rpc.status import raise_refused
from stepwell.wire import to_record
from stepwell.wire.codec import get_ms
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

MAX_ITERATIONS_DEFAULT = 10
MAX_PARALLEL_DEFAULT = 32


async def start_run(parts: Parts, shown: Shown, request: pb.StartRunRequest) -> pb.StartRunResponse:
    """Start a run; the answer comes after its first commit."""
    who = caller()
    run_id = (
        run_id_of(who.tenant_id, request.request_id)
        if request.request_id
        else parts.runtime.new_id()
    )
    command = _command(parts, who, run_id, request)
    if request.validate_only:
        return pb.StartRunResponse(run=await shown.run(await _rehearse(parts, command)))
    reply = await parts.executor.send(who.tenant_id, run_id, command)
    run = raise_refused(reply)
    created = reply.status is ReplyStatus.ACCEPTED
    return pb.StartRunResponse(run=await shown.run(run), created=created)


async def _rehearse(parts: Parts, command: Start) -> Run:
    """Do all of it but the commit: the loop is a pure function."""
    spec = command.spec
    loaded = await parts.store.load(spec.tenant_id, spec.run_id)
    state = RunState.of(loaded) if loaded else RunState.empty(spec.tenant_id, spec.run_id)
    context = Context(
        now_us=parts.runtime.now_us(), seed=0, lease_ms=parts.settings.executor.lease_ms
    )
    transition = advance(state, [command], context)
    return raise_refused(transition.replies[0])


def _command(parts: Parts, who: Principal, run_id: str, request: pb.StartRunRequest) -> Start:
    asked: Budget = to_record(request.budget)
    spec = RunSpec(
        tenant_id=who.tenant_id,
        run_id=run_id,
        pipeline_id=request.pipeline_id,
        queue=request.queue or request.pipeline_id or QUEUE_DEFAULT,
        goal=request.goal,
        labels=dict(request.labels),
        executor_id=request.executor_id or who.subject,
        max_iterations=_or(request, "max_iterations", MAX_ITERATIONS_DEFAULT),
        max_parallel=_or(request, "max_parallel", MAX_PARALLEL_DEFAULT),
        priority=request.priority,
        budget=with_default(parts, who.tenant_id, asked),
        no_progress_limit=_or(request, "no_progress_limit", limits.NO_PROGRESS_LIMIT_DEFAULT),
        step_retry=to_record(request.step_retry),
        step_timeout_ms=get_ms(request.step_timeout),
        start_delay_ms=get_ms(request.start_delay),
        request_fingerprint=fingerprint_of(request) if request.request_id else "",
    )
    has_plan = request.HasField("plan")
    if request.stages and not has_plan:
        what = "without a plan it is the planning worker that says which stages there are"
        raise InvalidArgument(f"stages: {what}", (Violation("stages", what),))
    return Start(
        spec=spec,
        input=to_record(request.input) if request.HasField("input") else None,
        plan=tuple(to_record(task) for task in request.plan.tasks) if has_plan else None,
        stages=_stages(request),
    )


def _stages(request: pb.StartRunRequest) -> tuple[StepKind, ...]:
    names = dict.fromkeys(types_pb2.StepKind.Name(stage) for stage in request.stages)
    return tuple(StepKind(name.removeprefix("STEP_KIND_")) for name in names)


def _or(request: pb.StartRunRequest, field: str, default: int) -> int:
    return getattr(request, field) if request.HasField(field) else default
