"""ListRuns, ListTasks, ListExecutions."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.app.history import History, check_version
from stepwell.app.runs import read_run
from stepwell.core.loop.children import PARENT_LABEL, ROOT_LABEL
from stepwell.core.port import ExecutionQuery, RunQuery, TaskQuery
from stepwell.core.records.model import Execution, Run, Task, TaskSpec
from stepwell.core.records.states import BlockedKind, RunStatus
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, rows_of, size_of, token_of
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.wire.records import fill, to_message
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

_NEEDS_A_LOOK = frozenset({BlockedKind.WORKER, BlockedKind.CAPACITY})


def run_statuses(numbers: Sequence[types_pb2.RunStatus]) -> tuple[RunStatus, ...]:
    """Return the statuses of a filter."""
    names = (types_pb2.RunStatus.Name(number) for number in numbers)
    return tuple(RunStatus(name.removeprefix("RUN_STATUS_")) for name in names)


def _place(request: pb.ListRunsRequest) -> dict[str, str]:
    """Return the labels of the child runs that are asked for."""
    asked = {PARENT_LABEL: request.child_of, ROOT_LABEL: request.root_run_id}
    return {name: run_id for name, run_id in asked.items() if run_id}


async def list_runs(
    deps: Dependencies, presenter: RunPresenter, request: pb.ListRunsRequest
) -> pb.ListRunsResponse:
    """Return a page of the tenant's runs, newest first."""
    tenant_id = tenant()
    cursor = cursor_of(tenant_id, request)
    kinds = {
        BlockedKind(types_pb2.BlockedKind.Name(kind).removeprefix("BLOCKED_KIND_"))
        for kind in request.blocked_on
    }
    # The rows have WORKER for both kinds, which are distinguished for each run.
    looked_at = kinds & _NEEDS_A_LOOK
    asked = kinds - _NEEDS_A_LOOK
    if looked_at:
        asked.add(BlockedKind.WORKER)
    workers = await presenter.workers(tenant_id)

    query = RunQuery(
        tenant_id=tenant_id,
        statuses=run_statuses(request.statuses),
        pipeline_id=request.pipeline_id,
        queue=request.queue,
        executor_id=request.executor_id,
        labels={**request.labels, **_place(request)},
        blocked_on=tuple(sorted(asked)),
        parent_run_id=request.parent_run_id,
        run_id_prefix=request.run_id_prefix,
        cursor=cursor,
    )

    async def show(run: Run) -> types_pb2.Run | None:
        refined = await presenter.refine(run, workers)
        if kinds and refined.blocked_on not in kinds:
            return None
        return to_message(refined)

    runs, after = await read_page(rows_of(deps.store, query), show, size_of(request))
    return pb.ListRunsResponse(runs=runs, next_page_token=token_of(tenant_id, request, after))


async def list_tasks(
    deps: Dependencies, history: History, request: pb.ListTasksRequest
) -> pb.ListTasksResponse:
    """Return a page of a run's tasks, each with its definition."""
    tenant_id, run_id = tenant(), request.run_id
    run = await read_run(deps.store, tenant(), run_id)
    check_version(run, request.version)
    cursor = cursor_of(tenant_id, request)
    specs = Specs(deps, tenant_id, run_id)
    query = TaskQuery(tenant_id=tenant_id, run_id=run_id, cursor=cursor)
    rows = rows_of(deps.store, query)

    async def read(limit: int) -> tuple[Sequence[Task], str]:
        if request.version:
            tasks, _ = await history.tasks_at(run, request.version)
            start = int(cursor or "0")
            end = start + limit
            return tasks[start:end], str(end) if end < len(tasks) else ""
        return await rows(limit)

    async def show(task: Task) -> pb.TaskEntry:
        entry = pb.TaskEntry()
        fill(task, entry.task)
        spec = await specs.of(task)
        if spec is not None:
            fill(spec, entry.spec)
            if request.view != types_pb2.VIEW_FULL:
                entry.spec.ClearField("prompt")
                entry.spec.ClearField("input")
                if entry.spec.HasField("child"):
                    entry.spec.child.ClearField("plan")
        return entry

    tasks, after = await read_page(read, show, size_of(request))
    return pb.ListTasksResponse(tasks=tasks, next_page_token=token_of(tenant_id, request, after))


class Specs:
    """Task specs by task, from the plans that defined them; each plan is read once."""

    def __init__(self, deps: Dependencies, tenant_id: str, run_id: str) -> None:
        self._deps = deps
        self._run = (tenant_id, run_id)
        self._plans: dict[int, dict[str, TaskSpec]] = {}

    async def of(self, task: Task) -> TaskSpec | None:
        """Return the task's definition, or None if its plan is gone with the run."""
        specs = self._plans.get(task.revision)
        if specs is None:
            plan = await self._deps.store.read_plan(*self._run, task.revision)
            specs = {spec.task_id: spec for spec in plan.tasks} if plan is not None else {}
            self._plans[task.revision] = specs
        return specs.get(task.task_id)


async def list_executions(
    deps: Dependencies, request: pb.ListExecutionsRequest
) -> pb.ListExecutionsResponse:
    """Return a page of a run's executions, in the order of their offers."""
    tenant_id, run_id = tenant(), request.run_id
    await read_run(deps.store, tenant(), run_id)
    cursor = cursor_of(tenant_id, request)

    query = ExecutionQuery(
        tenant_id=tenant_id, run_id=run_id, task_id=request.task_id, cursor=cursor
    )

    async def show(execution: Execution) -> types_pb2.Execution:
        return to_message(execution)

    rows = rows_of(deps.store, query)
    executions, after = await read_page(rows, show, size_of(request))
    token = token_of(tenant_id, request, after)
    return pb.ListExecutionsResponse(executions=executions, next_page_token=token)
