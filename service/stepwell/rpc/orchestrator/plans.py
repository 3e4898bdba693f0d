"""ListPlans: the revisions of a run's plan."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.app.runs import read_run
from stepwell.core.records import limits
from stepwell.core.records.model import Plan, TaskSpec
from stepwell.core.records.task_spec import ChildRun
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, size_of, token_of
from stepwell.wire.records import to_message
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

_PLAN_BYTES_MAX = limits.SEND_BYTES_MAX - 4 * 1024
"""The largest plan; the rest of a message is for other fields of the page."""


async def list_plans(deps: Dependencies, request: pb.ListPlansRequest) -> pb.ListPlansResponse:
    """Return a page of a run's plans, by revision."""
    tenant_id = tenant()
    run = await read_run(deps.store, tenant(), request.run_id)
    cursor = cursor_of(tenant_id, request)

    async def read(limit: int) -> tuple[Sequence[int], str]:
        start = int(cursor or "1")
        last = min(run.plan_revision, start + limit - 1)
        return range(start, last + 1), str(last + 1) if last < run.plan_revision else ""

    async def show(revision: int) -> types_pb2.Plan | None:
        # One at a time, so that a page of large plans is cut before all of them are read.
        plan = await deps.store.read_plan(tenant_id, request.run_id, revision)
        return (
            None if plan is None else _shown(plan, with_tasks=request.view == types_pb2.VIEW_FULL)
        )

    plans, after = await read_page(read, show, size_of(request))
    return pb.ListPlansResponse(plans=plans, next_page_token=token_of(tenant_id, request, after))


def _light(task: TaskSpec) -> ChildRun | None:
    return None if task.child is None else replace(task.child, tasks=())


def _shown(plan: Plan, *, with_tasks: bool) -> types_pb2.Plan:
    if not with_tasks:
        return to_message(replace(plan, tasks=()))
    light = tuple(replace(task, prompt="", input=None, child=_light(task)) for task in plan.tasks)
    message = to_message(replace(plan, tasks=light))
    if message.ByteSize() > _PLAN_BYTES_MAX:
        # A plan grows when it is stored: defaults are written out, and `carried` is added.
        for task in message.tasks:
            task.ClearField("retry")
    return message
