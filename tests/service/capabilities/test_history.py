"""A run's past: plans as revisions, checkpoints, earlier versions, attempts as they are counted."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell_client import (
    InvalidRequest,
    Task,
    TaskStatus,
)
from stepwell_client.v1 import orchestrator_pb2 as pb
from tests.service.capabilities.conftest import Served
from tests.service.capabilities.test_forks import WAIT_S, finished, tasks_of, working


async def pages(served: Served, method: str, request: Any, field: str) -> list[list[Any]]:
    """Return all pages of a list."""
    found: list[list[Any]] = []
    while not found or request.page_token:
        page = await served.client.caller.call(method, request)
        found.append(list(getattr(page, field)))
        request.page_token = page.next_page_token
    return found


async def test_checkpoints_have_the_run_as_of_each(served_everywhere: Served) -> None:
    served = served_everywhere
    async with working(served):
        run = await finished(served, "twice")
    found = [one async for one in served.client.run(run.id).checkpoints()]

    assert [one.type.name for one in found] == [
        "RUN_STARTED",
        "PLAN_ACCEPTED",
        "ITERATION_COMPLETED",
        "PLAN_ACCEPTED",
        "ITERATION_COMPLETED",
        "RUN_SUCCEEDED",
    ]
    assert [one.run.iteration for one in found] == [1, 1, 2, 2, 2, 2]
    assert [one.run.counts.completed for one in found] == [0, 0, 2, 2, 3, 3]
    for one in found:
        assert one.run == await served.client.run(run.id).get(version=one.version)
        tasks = await tasks_of(served, run, one.version)
        done = [task.status == TaskStatus.COMPLETED for task in tasks.values()]
        assert sum(done) == one.run.counts.completed
    assert found[-1].run == await run.get()
    request = pb.ListCheckpointsRequest(run_id=run.id, page_size=2)
    first = await served.client.caller.call("ListCheckpoints", request)
    await served.restart()  # Nothing is remembered, and the token is still good.
    request.page_token = first.next_page_token
    paged = await pages(served, "ListCheckpoints", request, "checkpoints")
    events = [one.event for one in found]
    listed = [[one.event for one in page] for page in [first.checkpoints, *paged]]
    assert listed == [events[:2], events[2:4], events[4:]]


async def test_pages_of_earlier_tasks(served: Served) -> None:
    plan = [Task(f"t{n:03}", "say", input=str(n)) for n in range(25)]
    run = await served.client.start("many", plan=plan)
    async with working(served):
        await run.wait(WAIT_S)
    request = pb.ListTasksRequest(run_id=run.id, version=2, page_size=10)
    found = await pages(served, "ListTasks", request, "tasks")
    assert [[entry.spec.task_id for entry in page] for page in found] == [
        [task.id for task in plan[at : at + 10]] for at in (0, 10, 20)
    ]
    other = pb.ListTasksRequest(run_id=run.id, version=3, page_size=10)
    other.page_token = (await served.client.caller.call("ListTasks", other)).next_page_token
    other.version = 2
    with pytest.raises(InvalidRequest, match="page_token"):
        await served.client.caller.call("ListTasks", other)
