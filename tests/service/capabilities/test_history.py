"""A run's past: plans as revisions, checkpoints, earlier versions, attempts as they are counted."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.records.fold import fold
from stepwell_client import (
    EventType,
    InvalidRequest,
    RunHandle,
    Task,
    TaskStatus,
    word,
)
from stepwell_client.v1 import orchestrator_pb2 as pb
from tests.service.capabilities.conftest import Served
from tests.service.capabilities.test_forks import WAIT_S, finished, tasks_of, working


async def twice(served: Served) -> RunHandle:
    """A run of two iterations, each with a plan of its own."""
    async with working(served):
        return await finished(served, "twice")


async def test_each_planning_makes_a_revision(served: Served) -> None:
    run = await twice(served)
    first, second = [plan async for plan in served.client.plans(run.id, with_tasks=True)]

    assert [task.task_id for task in first.tasks] == ["a", "b"]
    assert not first.tasks[0].HasField("input")
    assert (second.revision, second.parent_revision, second.iteration) == (2, 1, 2)
    assert [task.task_id for task in second.tasks] == ["c"]
    assert first.fingerprint != second.fingerprint
    light = [plan async for plan in served.client.plans(run.id)]
    assert [len(plan.tasks) for plan in light] == [0, 0]
    assert [plan.fingerprint for plan in light] == [first.fingerprint, second.fingerprint]
    request = pb.ListPlansRequest(run_id=run.id, page_size=1)
    assert await pages(served, "ListPlans", request, "plans") == [[one] for one in light]


async def pages(served: Served, method: str, request: Any, field: str) -> list[list[Any]]:
    """Return all pages of a list."""
    found: list[list[Any]] = []
    while not found or request.page_token:
        page = await served.client._call(method, request)
        found.append(list(getattr(page, field)))
        request.page_token = page.next_page_token
    return found


async def test_checkpoints_have_the_run_as_of_each(served: Served) -> None:
    run = await twice(served)
    found = [one async for one in served.client.checkpoints(run.id)]

    assert [word(EventType, one.type) for one in found] == [
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
        assert one.run == await served.client.get(run.id, version=one.version)
    assert found[-1].run == await run.refresh()
    request = pb.ListCheckpointsRequest(run_id=run.id, page_size=2)
    first = await served.client._call("ListCheckpoints", request)
    await served.restart()  # Nothing is remembered, and the token is still good.
    request.page_token = first.next_page_token
    paged = await pages(served, "ListCheckpoints", request, "checkpoints")
    assert [list(first.checkpoints), *paged] == [found[:2], found[2:4], found[4:]]


async def test_run_and_tasks_as_of_every_version_are_what_the_events_give(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    run = await twice(served)
    row = await run.refresh()
    spec = (await served.store.load(row.spec.tenant_id, run.id)).run.spec  # pyright: ignore[reportOptionalMemberAccess] - it is there
    page = await served.store.read_events(spec.tenant_id, run.id, after=0, limit=10_000)
    assert page is not None
    plans = {n: await served.store.read_plan(spec.tenant_id, run.id, n) for n in (1, 2)}
    for version in (*range(1, row.version + 1), 3, 1):
        events = [event for event in page.events if event.version <= version]
        rows = fold(spec, plans, events)  # pyright: ignore[reportArgumentType] - both are there
        then = await served.client.get(run.id, version=version)
        assert (then.version, then.last_event) == (version, rows.run.last_event)
        assert then.counts.completed == rows.run.counts.completed
        assert then.attempts.completed == rows.run.attempts.completed
        tasks = await tasks_of(served, run, version)
        assert {k: word(TaskStatus, one.status) for k, one in tasks.items()} == {
            k: str(one.status) for k, one in rows.tasks.items()
        }
    assert list(await tasks_of(served, run, row.version)) == list(await tasks_of(served, run))


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
    other.page_token = (await served.client._call("ListTasks", other)).next_page_token
    other.version = 2
    with pytest.raises(InvalidRequest, match="page_token"):
        await served.client._call("ListTasks", other)
