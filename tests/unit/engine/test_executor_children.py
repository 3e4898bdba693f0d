"""Child runs over an executor: their letters are delivered, once each, whatever stops in between."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepwell.core.loop import letters
from stepwell.core.loop.children import ChildEnd
from stepwell.core.loop.occurrences import (
    AwaitChild,
    Cancel,
    Completed,
    Failed,
    Suspended,
    SuspendedCall,
)
from stepwell.core.port import Assignment, JournalQuery, RunQuery
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.model import Failure, Payload, Run, TaskSpec, Usage
from stepwell.core.records.states import RunStatus
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    delivery,
    executor_world,
)

WORK = TaskSpec(task_id="work")
CHILD = AwaitChild(goal="find out", tasks=(WORK,))


def waits(**children: AwaitChild) -> Suspended:
    return Suspended(waits=tuple(SuspendedCall(call=k, wait=one) for k, one in children.items()))


async def children_of(world: ExecutorWorld, run_id: str = RUN) -> list[Run]:
    query = RunQuery(tenant_id=TENANT, labels={"stepwell.parent": run_id})
    return list((await world.store.page(query)).items)


async def undelivered(world: ExecutorWorld, run_id: str) -> int:
    query = JournalQuery(tenant_id=TENANT, run_id=run_id, journal=letters.JOURNAL)
    return len((await world.store.page(query)).items)


def ends_in(assignment: Assignment) -> dict[str, ChildEnd]:
    assert assignment.journal is not None
    found: dict[str, ChildEnd] = {}
    for held in assignment.journal.entries:
        assert held.entry.value is not None
        found[held.entry.key] = msgspec.json.decode(held.entry.value.data, type=ChildEnd)
    return found


async def test_parent_goes_on_with_the_result_of_its_child() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=3)
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(kid=CHILD))
        work = await worker.next()
        child_id = work.run.run_id
        assert (work.task, work.run.goal) == (WORK, "find out")
        result = Payload(data=b"42")
        done = msgspec.structs.replace(
            delivery(work, Completed(result=result)), usage=Usage(input_tokens=5)
        )
        await executor.deliver(TENANT, child_id, done)
        again = await worker.next()
        assert again.run.run_id == RUN
        end = ends_in(again)["kid"]
        assert (end.run_id, end.status, end.tasks) == (child_id, "SUCCEEDED", {"work": result})
        await worker.deliver(again)

        assert await world.status() is RunStatus.SUCCEEDED
        await executor.drain()
        parent = await world.run()
        assert (parent.usage.input_tokens, parent.children) == (5, 1)
        assert [await undelivered(world, one) for one in (RUN, child_id)] == [0, 0]


async def test_a_child_that_fails_or_is_refused_ends_its_call() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=3)
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(kid=CHILD))
        failure = Failure(kind="Boom", message="no", retryable=False)
        await worker.deliver(await worker.next(), Failed(failure=failure))
        end = ends_in(await worker.next())["kid"]
        assert (end.status, end.failure.kind) == ("FAILED", "Boom")


async def test_a_cancelled_parent_cancels_its_children_and_theirs() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=5)
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(kid=CHILD))
        work = await worker.next()
        await worker.deliver(work, waits(grandkid=CHILD))
        grandkid = (await worker.next()).run.run_id
        await executor.send(TENANT, RUN, Cancel())
        await executor.drain()
        for run_id in (work.run.run_id, grandkid):
            assert await world.status(run_id) is RunStatus.CANCELLED
            assert await undelivered(world, run_id) == 0


class _Down(Exception):
    pass


@pytest.mark.parametrize("refused", range(1, 12))
async def test_a_replica_that_dies_between_two_commits_loses_no_letter(refused: int) -> None:
    """Another replica takes over after the commit number `refused` of the first was the last."""
    async with executor_world() as world:
        commits = 0

        async def first(method: str, *args: Any, **kwargs: Any) -> None:
            nonlocal commits
            if method == "commit":
                commits += 1
            if commits >= refused and method not in ("subscribe", "close"):
                raise StoreUnavailable("it is down")

        executor = world.executor(Rigged(world.store, first), poll_ms=100)
        worker = FakeWorker(executor)
        ran: list[str] = []
        try:
            await worker.attach(3)
            await world.start(executor, chain("a"))
            for _ in range(3):
                await turns(200)
                while not worker.pile.empty():
                    await step(worker, worker.pile.get_nowait(), ran)
        except StoreUnavailable:
            pass
        await executor.close()
        world.executors.remove(executor)
        other = world.executor(poll_ms=100)
        successor = FakeWorker(other, worker_id="other")
        await successor.attach(3)
        if await world.store.get_run(TENANT, RUN) is None:
            await world.start(other, chain("a"))
        for _ in range(400):
            world.pass_time(1_000)
            await turns(50)
            while not successor.pile.empty():
                assignment = successor.pile.get_nowait()
                if await step(successor, assignment, ran):
                    successor.credit()
            if await world.status() is RunStatus.SUCCEEDED:
                break
        await other.drain()
        assert await world.status() is RunStatus.SUCCEEDED
        [child] = await children_of(world)
        assert child.status is RunStatus.SUCCEEDED
        assert await undelivered(world, RUN) == 0


async def step(worker: FakeWorker, assignment: Assignment, ran: list[str]) -> bool:
    """Do a step as its agent would: the parent waits for its child, and returns once it has ended."""
    is_parent = assignment.run.run_id == RUN
    if is_parent and not (assignment.journal and assignment.journal.entries):
        await worker.deliver(assignment, waits(kid=CHILD))
    else:
        ran.append(assignment.run.run_id)
        await worker.deliver(assignment)
    return True


async def test_a_run_without_children_costs_no_statement_more() -> None:
    async with executor_world() as world:
        store = Rigged(world.store)
        executor = world.executor(store)
        worker = FakeWorker(executor)
        await worker.attach(1)
        await world.start(executor, chain("a"))
        before = store.calls.copy()
        await worker.deliver(await worker.next())
        await executor.drain()
        assert store.calls - before == {"commit": 1}
