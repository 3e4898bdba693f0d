"""Child runs over an executor: their letters are delivered, once each, whatever stops in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from stepwell.app.retention import Purge, purge
from stepwell.app.runs import delete_run
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
from stepwell.core.port import Assignment, EndedQuery, JournalQuery, RunQuery
from stepwell.core.records.errors import FailedPrecondition, StoreUnavailable
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


async def test_a_parent_removes_its_letters_with_what_it_commits_anyway() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await world.start(executor, chain("a"))
        assignment = await worker.next()
        for call in ("one", "two"):
            before = (await world.run()).version
            await worker.deliver(assignment, waits(**{call: CHILD}))
            await worker.deliver(await worker.next())
            assignment = await worker.next()
            # One commit suspends the step, and one takes the child's end.
            assert (await world.run()).version == before + 2
        assert await undelivered(world, RUN) == 0
        await worker.deliver(assignment)
        await executor.drain()
        assert [one.version for one in await children_of(world)] == [3, 3]


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
        deepest = await worker.next()
        grandkid = deepest.run.run_id
        place = (await world.run(grandkid)).spec.child_of
        assert (place.run_id, place.root_run_id, place.depth) == (work.run.run_id, RUN, 2)
        await executor.send(TENANT, RUN, Cancel())
        await executor.drain()
        for run_id in (work.run.run_id, grandkid):
            assert await world.status(run_id) is RunStatus.CANCELLED
            assert await undelivered(world, run_id) == 0
        assert worker.cancelled.get_nowait() == deepest.execution.execution_id


@pytest.mark.parametrize("commits", range(1, 7))
async def test_a_replica_that_dies_in_a_cancellation_leaves_no_descendant_open(
    commits: int,
) -> None:
    """Another replica takes over after this many commits, of which the root's cancellation is the first."""
    async with executor_world() as world:
        store, worker = world.mortal()
        executor = worker.executor
        await worker.attach(5)
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(kid=CHILD))
        work = await worker.next()
        await worker.deliver(work, waits(grandkid=CHILD))
        family = (RUN, work.run.run_id, (await worker.next()).run.run_id)
        await executor.drain()
        store.left = commits
        await executor.send(TENANT, RUN, Cancel())
        await turns(200)
        other = (await world.succeed(executor)).executor
        for _ in range(100):
            if sum([await undelivered(world, one) for one in family]) == 0:
                break
            world.pass_time(1_000)
            await turns(50)
        await other.drain()
        assert {await world.status(one) for one in family} == {RunStatus.CANCELLED}
        assert [await undelivered(world, one) for one in family] == [0, 0, 0]


@pytest.mark.parametrize("commits", range(1, 11))
async def test_a_replica_that_dies_between_pages_leaves_no_child_open(
    commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another replica takes over after this many commits, and a deletion waits until all children are cancelled."""
    monkeypatch.setattr(letters, "PAGE", 2)
    async with executor_world() as world:
        store, worker = world.mortal()
        executor = worker.executor
        await worker.attach()
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(**dict.fromkeys("uvwxyz", CHILD)))
        await executor.drain()
        kids = [one.spec.run_id for one in await children_of(world)]
        store.left = commits
        await executor.send(TENANT, RUN, Cancel())
        await turns(200)
        other = (await world.succeed(executor)).executor
        deleting = asyncio.ensure_future(delete_run(other, TENANT, RUN))
        while not deleting.done():
            world.pass_time(1_000)
            await turns(50)
        await deleting
        assert [await world.status(one) for one in kids] == [RunStatus.CANCELLED] * 6
        for _ in range(100):
            if sum([await undelivered(world, one) for one in kids]) == 0:
                break
            world.pass_time(1_000)
            await turns(50)
        assert [await undelivered(world, one) for one in kids] == [0] * 6
        await other.drain()


async def test_a_child_that_is_left_goes_on_after_its_parent_is_deleted() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=3)
        await world.start(executor, chain("a"))
        left = msgspec.structs.replace(CHILD, leave=True)
        await worker.deliver(await worker.next(), waits(kid=left))
        work = await worker.next()
        with pytest.raises(FailedPrecondition, match="cancel it first"):
            await delete_run(executor, TENANT, RUN)
        await executor.send(TENANT, RUN, Cancel())
        await delete_run(executor, TENANT, RUN)
        assert await world.store.get_run(TENANT, RUN) is None

        assert (await worker.deliver(work)).status == "ACCEPTED"
        await executor.drain()
        child_id = work.run.run_id
        assert await world.status(child_id) is RunStatus.SUCCEEDED
        await delete_run(executor, TENANT, child_id)
        assert await world.store.get_run(TENANT, child_id) is None


async def test_a_parent_is_not_removed_before_its_open_child_is_cancelled() -> None:
    """Neither a deletion nor a purge removes it while its child can't be reached."""
    async with executor_world() as world:
        lost = ""

        async def first(method: str, *args: Any, **kwargs: Any) -> None:
            if method == "commit" and any(one.run_id == lost for one in args[0]):
                raise StoreUnavailable("it is down")

        executor = world.executor(Rigged(world.store, first), poll_ms=100)
        worker = FakeWorker(executor)
        await worker.attach(3)
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(kid=CHILD))
        child_id = lost = (await worker.next()).run.run_id
        await executor.send(TENANT, RUN, Cancel())
        ended = EndedQuery(tenant_id=TENANT, statuses=(RunStatus.CANCELLED,), limit=9)

        async def purged() -> Purge:
            return await purge(executor, ended, lambda *_: None, rehearse=False)

        deleting = asyncio.ensure_future(delete_run(executor, TENANT, RUN))
        await turns(200)
        assert await purged() == Purge([], complete=False)
        assert await world.status() is RunStatus.CANCELLED
        assert not (await world.run(child_id)).ended
        lost = ""
        while not deleting.done():
            world.pass_time(1_000)
            await turns(50)
        try:
            await deleting
        except StoreUnavailable:
            await delete_run(executor, TENANT, RUN)
        assert await world.store.get_run(TENANT, RUN) is None
        assert await world.status(child_id) is RunStatus.CANCELLED
        await executor.drain()
        assert await purged() == Purge([child_id], complete=True)


class _Down(Exception):
    pass


@pytest.mark.parametrize("commits", range(11))
async def test_a_replica_that_dies_between_two_commits_loses_no_letter(commits: int) -> None:
    """Another replica takes over after this many commits of the first."""
    async with executor_world() as world:
        _, worker = world.mortal(commits)
        executor = worker.executor
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
        successor = await world.succeed(executor)
        other = successor.executor
        await successor.attach(3)
        if await world.store.get_run(TENANT, RUN) is None:
            await world.start(other, chain("a"))
        left: list[int] = []
        for _ in range(400):
            world.pass_time(1_000)
            await turns(50)
            while not successor.pile.empty():
                assignment = successor.pile.get_nowait()
                if await step(successor, assignment, ran):
                    successor.credit()
            runs = [await world.run(), *await children_of(world)]
            left = [await undelivered(world, one.spec.run_id) for one in runs]
            if runs[0].status is RunStatus.SUCCEEDED and left == [0, 0]:
                break
        await other.drain()
        assert await world.status() is RunStatus.SUCCEEDED
        [child] = await children_of(world)
        assert child.status is RunStatus.SUCCEEDED
        assert left == [0, 0]
        assert (await world.run()).usage.input_tokens == 5


async def test_a_replica_that_is_behind_a_child_delivers_its_end() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=3)
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(kid=CHILD))
        child_id = (await worker.next()).run.run_id
        _, dying = world.mortal(commits=1)
        with suppress(StoreUnavailable):
            await dying.executor.send(TENANT, child_id, Cancel())
        assert await undelivered(world, child_id) == 1
        await world.succeed(dying.executor)
        for _ in range(10):
            world.pass_time(1_000)
            await turns(50)
        assert ends_in(await worker.next())["kid"].status == "CANCELLED"


async def step(worker: FakeWorker, assignment: Assignment, ran: list[str]) -> bool:
    """Do a step as its agent would: the parent waits for its child, and returns once it has ended."""
    is_parent = assignment.run.run_id == RUN
    if is_parent and not (assignment.journal and assignment.journal.entries):
        await worker.deliver(assignment, waits(kid=CHILD))
    else:
        ran.append(assignment.run.run_id)
        used = Usage(input_tokens=0 if is_parent else 5)
        done = msgspec.structs.replace(delivery(assignment), usage=used)
        await worker.executor.deliver(TENANT, assignment.run.run_id, done)
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
