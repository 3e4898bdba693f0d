"""ListResults: the result bytes of a run, its tasks and its executions.

A page has as many bytes as fit into its message. A result that doesn't fit is marked
`by_reference`; requested alone it always fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepwell.app.runs import read_run
from stepwell.core.port import TaskQuery, every_row
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Failure, Payload, Task
from stepwell.core.records.states import SETTLED
from stepwell.rpc.caller import tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.pages import (
    cursor_of,
    read_page,
    size_of,
    token_of,
)
from stepwell.wire.records import fill
from stepwell_client.v1 import orchestrator_pb2 as pb

INLINE_BYTES_MAX = 2 * 1024 * 1024
"""The most payload bytes of tasks in one page; fewer if failures and the run's own result take the room."""
_MESSAGE_BYTES_MAX = limits.SEND_BYTES_MAX - 64 * 1024
_PAYLOAD_BYTES = 1024
"""The most bytes of a payload in a message, without its data."""
_ITEM_BYTES = 8
_PAYLOADS_AT_ONCE = 16


async def list_results(
    deps: Dependencies, request: pb.ListResultsRequest
) -> pb.ListResultsResponse:
    """Return a page of results."""
    if request.task_ids and request.execution_ids:
        what = "give either task_ids or execution_ids"
        raise InvalidArgument(f"execution_ids: {what}", (Violation("execution_ids", what),))
    tenant_id = tenant()
    run = await read_run(deps.store, tenant(), request.run_id)
    cursor = cursor_of(tenant_id, request)
    source = _Results(deps, tenant_id, request.run_id)

    async def read(limit: int) -> tuple[Sequence[pb.Result | None], str]:
        if request.task_ids or request.execution_ids:
            return await source.named(request, cursor, limit)
        return await source.settled(cursor, limit)

    async def show(result: pb.Result | None) -> pb.Result | None:
        return result

    results, after = await read_page(read, show, size_of(request))
    response = pb.ListResultsResponse(next_page_token=token_of(tenant_id, request, after))
    room = _MESSAGE_BYTES_MAX - sum(one.ByteSize() + _ITEM_BYTES for one in results)
    if not cursor and run.result_id:
        response.run_result.execution_id = run.result_id
        payloads = await deps.store.read_payloads(tenant_id, request.run_id, [run.result_id])
        if payloads and payloads[0].payload is not None:
            if len(payloads[0].payload.data) + _PAYLOAD_BYTES <= room:
                fill(payloads[0].payload, response.run_result.payload)
            else:
                response.run_result.by_reference = True
            room -= response.run_result.ByteSize()
    await _Inline(deps, tenant_id, request.run_id).fill(results, min(INLINE_BYTES_MAX, room))
    response.results.extend(results)
    return response


class _Results:
    """Results without their bytes; None stands for a missing result."""

    def __init__(self, deps: Dependencies, tenant_id: str, run_id: str) -> None:
        self._store = deps.store
        self._run = (tenant_id, run_id)

    async def settled(self, cursor: str, limit: int) -> tuple[Sequence[pb.Result | None], str]:
        """Return the results of settled tasks among the next `limit` tasks."""
        page = await self._store.page(
            TaskQuery(tenant_id=self._run[0], run_id=self._run[1], cursor=cursor, limit=limit)
        )
        results = [_result_of(task) if task.status in SETTLED else None for task in page.items]
        return results, page.cursor

    async def named(
        self, request: pb.ListResultsRequest, cursor: str, limit: int
    ) -> tuple[Sequence[pb.Result | None], str]:
        """Return the next of the requested results; the cursor is an index among them."""
        ids = tuple(request.task_ids or request.execution_ids)
        start = int(cursor) if cursor.isdecimal() else 0
        wanted = ids[start : start + limit]
        by_task = bool(request.task_ids)
        tasks = await self._tasks(wanted, by_task=by_task)
        results: list[pb.Result | None] = []
        for name in wanted:
            task = tasks.get(name)
            otherwise = None if by_task else pb.Result(execution_id=name, by_reference=True)
            results.append(_result_of(task) if task is not None else otherwise)
        end = start + len(wanted)
        return results, str(end) if end < len(ids) else ""

    async def _tasks(self, names: Iterable[str], *, by_task: bool) -> dict[str, Task]:
        missing = set(names)
        tasks: dict[str, Task] = {}
        if not missing:
            return tasks
        query = TaskQuery(tenant_id=self._run[0], run_id=self._run[1], limit=limits.PAGE_SIZE_MAX)
        async for task in every_row(self._store, query):
            name = task.task_id if by_task else task.result_id
            if name in missing and (not by_task or task.status in SETTLED):
                # A later plan may redefine a task, whose later row is then the current one.
                tasks[name] = task
        return tasks


class _Inline:
    """Puts bytes into results as far as they fit."""

    def __init__(self, deps: Dependencies, tenant_id: str, run_id: str) -> None:
        self._store = deps.store
        self._run = (tenant_id, run_id)

    async def fill(self, results: list[pb.Result], room: int) -> None:
        """Fill the results in order; a result that turns out to have no bytes loses its reference."""
        waiting = [one for one in results if one.by_reference]
        while waiting and room > 0:
            batch, waiting = waiting[:_PAYLOADS_AT_ONCE], waiting[_PAYLOADS_AT_ONCE:]
            payloads = await self._read(batch)
            for result in batch:
                payload = payloads.get((result.run_id, result.execution_id))
                if payload is None:
                    result.by_reference = False
                elif len(payload.data) + _PAYLOAD_BYTES <= room:
                    room -= len(payload.data) + _PAYLOAD_BYTES
                    fill(payload, result.payload)
                    result.by_reference = False
                else:
                    room = 0  # Nothing more is read; the rest stay references.
        # A requested execution that is no task's result and left no bytes has no result.
        results[:] = [
            one for one in results if one.task_id or one.by_reference or one.HasField("payload")
        ]

    async def _read(self, batch: Sequence[pb.Result]) -> dict[tuple[str, str], Payload]:
        """Return their bytes by run and execution, because results that a fork kept belong to another run."""
        wanted: dict[str, list[str]] = {}
        for one in batch:
            wanted.setdefault(one.run_id, []).append(one.execution_id)
        tenant_id, own_id = self._run
        payloads: dict[tuple[str, str], Payload] = {}
        for run_id, keys in wanted.items():
            stored = await self._store.read_payloads(tenant_id, run_id or own_id, keys)
            payloads |= {
                (run_id, one.key): one.payload for one in stored if one.payload is not None
            }
        return payloads


def _result_of(task: Task) -> pb.Result:
    result = pb.Result(
        task_id=task.task_id,
        execution_id=task.result_id,
        run_id=task.result_run_id,
        status=f"TASK_STATUS_{task.status}",
        by_reference=bool(task.result_id),
    )
    if task.failure != Failure():
        fill(task.failure, result.failure)
    return result
