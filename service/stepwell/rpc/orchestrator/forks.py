"""ForkRun: a run from a version of another one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.fork.carry import Changes
from stepwell.core.fork.compat import Misfit
from stepwell.core.fork.fork import Base, base_of, fork_id
from stepwell.core.loop.signals import ReplyStatus
from stepwell.core.port import INPUT_KEY, Presence, Principal
from stepwell.core.records import errors
from stepwell.core.records.errors import AlreadyExists, InvalidArgument, Violation
from stepwell.core.records.model import Payload, Run, RunSpec
from stepwell.core.records.states import ForkMode, StepKind
from stepwell.rpc.caller import caller
from stepwell.rpc.orchestrator.budgets import with_default
from stepwell.rpc.orchestrator.history import History, check_version
from stepwell.rpc.orchestrator.reads import the_run
from stepwell.rpc.orchestrator.requests import fingerprint_of, run_id_of
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import Parts
from stepwell.rpc.status import raise_refused
from stepwell.wire import to_message, to_record
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

_SAID_MAX = 3
"""Violations that an error's message tells; its details have the others."""


async def fork_run(
    parts: Parts, shown: Shown, history: History, request: pb.ForkRunRequest
) -> pb.ForkRunResponse:
    """Start a fork; the answer comes after its first commit."""
    if request.replan and request.HasField("plan"):
        what = "give either a plan or replan, which asks for another one"
        raise InvalidArgument(f"replan: {what}", (Violation("replan", what),))
    who = caller()
    known = await _made_before(parts, who, request)
    if known is not None:
        return pb.ForkRunResponse(run=await shown.run(known))
    parent = await the_run(parts, request.run_id)
    base = await _base(parts, history, who, parent, request)
    if request.validate_only:
        return _rehearsed(base)
    if base.misfits:
        raise _incompatible(base.misfits)
    run_id = base.fork.spec.run_id
    try:
        reply = await parts.executor.send(who.tenant_id, run_id, base.fork)
    except AlreadyExists:
        await the_run(parts, request.run_id)  # With the last of its family gone, nothing is forked.
        raise
    return pb.ForkRunResponse(
        run=await shown.run(raise_refused(reply)),
        created=reply.status is ReplyStatus.ACCEPTED,
        kept_task_ids=base.kept,
        rerun_task_ids=base.rerun,
    )


def _id_of(parts: Parts, who: Principal, request: pb.ForkRunRequest) -> str:
    fresh = (
        run_id_of(who.tenant_id, request.request_id)
        if request.request_id
        else parts.runtime.new_id()
    )
    return fork_id(request.run_id, fresh)


async def _made_before(parts: Parts, who: Principal, request: pb.ForkRunRequest) -> Run | None:
    """Return the fork that this very request made, though its parent may be gone by now."""
    if not request.request_id or request.validate_only:
        return None
    run = await parts.store.get_run(who.tenant_id, _id_of(parts, who, request))
    if run is not None and run.spec.request_fingerprint == fingerprint_of(request):
        return run
    return None


async def _base(
    parts: Parts, history: History, who: Principal, parent: Run, request: pb.ForkRunRequest
) -> Base:
    check_version(parent, request.version)
    rows = await history.rows_at(parent, request.version or parent.version)
    plans = await history.plans_at(parent, rows.run.plan_revision)
    spec = _spec(parts, who, rows.run, request)
    plan = tuple(to_record(task) for task in request.plan.tasks)
    changes = Changes(
        mode=ForkMode.PATCH if request.mode == types_pb2.FORK_MODE_PATCH else ForkMode.STRICT,
        plan=plan if request.HasField("plan") else None,
        replan=request.replan,
        roles=_roles(await parts.store.list_presence(who.tenant_id), spec.queue),
    )
    base = base_of(spec, rows, plans, changes)
    return base._replace(fork=replace(base.fork, input=await _input(parts, parent, request)))


def _spec(parts: Parts, who: Principal, parent: Run, request: pb.ForkRunRequest) -> RunSpec:
    before = parent.spec
    return replace(
        before,
        run_id=_id_of(parts, who, request),
        parent_run_id=before.run_id,
        parent_version=parent.version,
        family_id=before.family_id or before.run_id,
        goal=request.goal if request.HasField("goal") else before.goal,
        queue=request.queue or before.queue,
        labels={**before.labels, **request.labels},
        executor_id=request.executor_id or who.subject,
        max_iterations=(
            request.max_iterations if request.HasField("max_iterations") else before.max_iterations
        ),
        max_parallel=(
            request.max_parallel if request.HasField("max_parallel") else before.max_parallel
        ),
        priority=request.priority if request.HasField("priority") else before.priority,
        budget=(
            with_default(parts, before.tenant_id, to_record(request.budget))
            if request.HasField("budget")
            else before.budget
        ),
        start_delay_ms=0,
        request_fingerprint=fingerprint_of(request) if request.request_id else "",
    )


def _roles(workers: Sequence[Presence], queue: str) -> frozenset[str] | None:
    """Return the roles that the queue's connected workers fill; None: nobody is connected."""
    serving = [one for one in workers if queue in one.queues]
    if not serving:
        return None
    return frozenset(role for one in serving if StepKind.TASK in one.kinds for role in one.roles)


async def _input(parts: Parts, parent: Run, request: pb.ForkRunRequest) -> Payload | None:
    if request.HasField("input"):
        return to_record(request.input)
    spec = parent.spec
    found = await parts.store.read_payloads(spec.tenant_id, spec.run_id, [INPUT_KEY])
    return found[0].payload if found else None


def _rehearsed(base: Base) -> pb.ForkRunResponse:
    response = pb.ForkRunResponse(kept_task_ids=base.kept, rerun_task_ids=base.rerun)
    for one in base.misfits:
        response.violations.add(
            kind=f"FORK_VIOLATION_KIND_{one.kind}",
            task_id=one.task_id,
            field=one.field,
            description=one.description,
        )
    if not base.misfits:
        response.run.CopyFrom(to_message(base.fork.run))
    return response


def _incompatible(misfits: Sequence[Misfit]) -> errors.ForkIncompatible:
    said = [f"{one.kind} {one.task_id}: {one.description}" for one in misfits[:_SAID_MAX]]
    if len(misfits) > _SAID_MAX:
        said.append(f"and {len(misfits) - _SAID_MAX} more")
    return errors.ForkIncompatible(
        "the fork doesn't fit: " + "; ".join(said),
        tuple(
            errors.Misfit(one.kind, one.field or one.task_id, one.description) for one in misfits
        ),
    )
