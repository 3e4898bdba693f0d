"""A run's past: plans as revisions, checkpoints, earlier versions, attempts as they are counted."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.core.loop.signals import Completed, Delivery
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
    page = await _page(served, "ListPlans", pb.ListPlansRequest(run_id=run.id, page_size=1))
    assert ([plan.revision for plan in page.plans], bool(page.next_page_token)) == ([1], True)
    rest = pb.ListPlansRequest(run_id=run.id, page_size=1, page_token=page.next_page_token)
    last = await _page(served, "ListPlans", rest)
    assert ([plan.revision for plan in last.plans], last.next_page_token) == ([2], "")


async def _page(served: Served, method: str, request: Any) -> Any:
    client = served.client
    return await client._call(method, request)


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


@pytest.mark.parametrize("size", [1, 2, 4])
async def test_pages_of_checkpoints_are_the_same_list(served_memory: Served, size: int) -> None:
    served = served_memory
    run = await twice(served)
    whole = [one async for one in served.client.checkpoints(run.id)]
    found: list[Any] = []
    token = ""
    while True:
        request = pb.ListCheckpointsRequest(run_id=run.id, page_size=size, page_token=token)
        page = await _page(served, "ListCheckpoints", request)
        assert len(page.checkpoints) <= size
        found.extend(page.checkpoints)
        token = page.next_page_token
        if not token:
            break
        if len(found) == 2:
            await served.restart()  # Nothing is remembered, and the token is still good.
    assert found == whole


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


async def test_pages_of_earlier_tasks(served_memory: Served) -> None:
    served = served_memory
    plan = [Task(f"t{n:03}", "say", input=str(n)) for n in range(25)]
    async with working(served):
        run = await served.client.start("many", plan=plan)
        await run.wait(WAIT_S)
    found: list[str] = []
    token = ""
    while True:
        request = pb.ListTasksRequest(run_id=run.id, version=2, page_size=10, page_token=token)
        page = await _page(served, "ListTasks", request)
        found += [entry.spec.task_id for entry in page.tasks]
        token = page.next_page_token
        if not token:
            break
    assert found == [task.id for task in plan]
    other = pb.ListTasksRequest(run_id=run.id, version=3, page_size=10, page_token="")
    other.page_token = (await _page(served, "ListTasks", other)).next_page_token
    other.version = 2
    with pytest.raises(InvalidRequest, match="page_token"):
        await _page(served, "ListTasks", other)


async def test_a_result_that_comes_after_its_task_was_dropped_is_counted(
    served_memory: Served,
) -> None:
    executor = served_memory.server.parts.executor
    run = await served_memory.client.start("late", plan=[Task("a")])
    row = await run.refresh()
    late = Delivery(execution_id="task:a#1", token="of another time", result=Completed())
    before = (await run.refresh()).last_event
    assert (await executor.deliver(row.spec.tenant_id, run.id, late)).status == "LEASE_LOST"
    assert executor.stats["stale_outcomes"] == 1
    assert (await run.refresh()).last_event == before
