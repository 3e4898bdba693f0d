"""ForkRun: starts a run from a version of another run."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stepwell.app.forks import ForkOrder, PreparedFork, find_fork, make_fork, prepare_fork
from stepwell.app.history import History
from stepwell.app.start import checked_version
from stepwell.app.threads import in_thread, rehearse_in_thread
from stepwell.core.fork.fork import Base, fork_id
from stepwell.core.port import Principal
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Budget, TaskSpec
from stepwell.core.records.states import ForkMode, OnBusy
from stepwell.rpc.caller import caller
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.budgets import with_default
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.rpc.orchestrator.request_ids import fingerprint_of, run_id_of
from stepwell.rpc.orchestrator.start import on_busy_of
from stepwell.wire.plans import read_plan_of
from stepwell.wire.records import to_message, to_record
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2


async def fork_run(
    deps: Dependencies, presenter: RunPresenter, history: History, request: pb.ForkRunRequest
) -> pb.ForkRunResponse:
    """Start a fork; answer after its first commit."""
    if request.replan and request.HasField("plan"):
        what = "give either a plan or replan, which asks for another one"
        raise InvalidArgument(f"replan: {what}", (Violation("replan", what),))
    on_busy = on_busy_of(request)
    if on_busy is OnBusy.STEER:
        what = "is no STEER: a fork is a run of its own, and no signal"
        raise InvalidArgument(f"on_busy {what}", (Violation("on_busy", what),))
    order = _order(deps, caller(), request, await read_plan_of(deps.runtime, request))
    if request.request_id and not request.validate_only:
        known = await find_fork(deps.store, order)
        if known is not None:
            return pb.ForkRunResponse(run=await presenter.message(known))
    prepared = await prepare_fork(deps.store, history, order)
    response = _foretold(prepared)
    if request.validate_only:
        if order.thread_id and not prepared.base.misfits:
            await rehearse_in_thread(deps.executor, in_thread(prepared.base.fork, on_busy))
        return _rehearsal(response, prepared.base)
    made = await make_fork(deps.executor, order, prepared.base, on_busy)
    response.run.CopyFrom(await presenter.message(made.run))
    response.created = made.changed
    return response


def _order(
    deps: Dependencies,
    who: Principal,
    request: pb.ForkRunRequest,
    plan: tuple[TaskSpec, ...] | None,
) -> ForkOrder:
    fresh_id = (
        run_id_of(who.tenant_id, request.request_id)
        if request.request_id
        else deps.runtime.new_id()
    )
    asked: Budget | None = to_record(request.budget) if request.HasField("budget") else None
    order = ForkOrder(
        tenant_id=who.tenant_id,
        parent_run_id=request.run_id,
        run_id=fork_id(request.run_id, fresh_id),
        executor_id=request.on_behalf_of,
        version=request.version,
        mode=ForkMode.PATCH if request.mode == types_pb2.FORK_MODE_PATCH else ForkMode.STRICT,
        plan=plan,
        replan=request.replan,
        input=to_record(request.input) if request.HasField("input") else None,
        goal=_given(request, "goal"),
        queue=request.queue,
        labels=dict(request.labels),
        max_iterations=_given(request, "max_iterations"),
        max_parallel=_given(request, "max_parallel"),
        priority=_given(request, "priority"),
        budget=asked,
        worker_version=(
            checked_version(to_record(request.worker_version))
            if request.HasField("worker_version")
            else None
        ),
        thread_id=request.thread_id,
        reflect_on=tuple(dict.fromkeys(request.reflect_on)),
    )
    # The caller and the server's settings are not part of the request's meaning.
    return replace(
        order,
        actor=who.subject,
        request_fingerprint=fingerprint_of(order)
        if request.request_id or request.thread_id
        else "",
        budget=None if asked is None else with_default(deps, who.tenant_id, asked),
    )


def _given(request: pb.ForkRunRequest, field: str) -> Any:
    return getattr(request, field) if request.HasField(field) else None


def _foretold(prepared: PreparedFork) -> pb.ForkRunResponse:
    """Return what a fork will keep and run."""
    base = prepared.base
    return pb.ForkRunResponse(
        kept_task_ids=base.kept[: limits.FORK_IDS_MAX],
        rerun_task_ids=base.rerun[: limits.FORK_IDS_MAX],
        pending_task_ids=base.pending[: limits.FORK_IDS_MAX],
        kept=len(base.kept),
        rerun=len(base.rerun),
        pending=len(base.pending),
        warnings=prepared.warnings,
    )


def _rehearsal(response: pb.ForkRunResponse, base: Base) -> pb.ForkRunResponse:
    """Add the violations of a fork, or else the run that it would be."""
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
