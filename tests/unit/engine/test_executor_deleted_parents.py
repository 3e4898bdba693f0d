"""Deletions of runs that have child runs: each child is then the root of a tree of its own."""

from __future__ import annotations

import pytest

from stepwell.app.retention import purge
from stepwell.app.runs import delete_run
from stepwell.core.loop.occurrences import AwaitChild, Cancel
from stepwell.core.port import Assignment, EndedQuery
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.family import ChildOf
from stepwell.core.records.model import RunSpec
from stepwell.core.records.states import RunStatus
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    executor_world,
)
from tests.unit.engine.test_executor_children import CHILD, WORK, children_of, waits

LEFT = AwaitChild(goal="stay", tasks=(WORK,), labels={"team": "x"}, leave=True)


async def tree(world: ExecutorWorld, worker: FakeWorker) -> dict[str, str]:
    """Cancel a run with children: one that it left, with a child of its own, and one that has ended.

    Returns their ids, by the names `left`, `below` and `ended`.
    """
    await worker.attach(9)
    await world.start(worker.executor, chain("a"))
    await worker.deliver(await worker.next(), waits(ended=CHILD, left=LEFT))
    started = await taken(worker, 2)
    await worker.deliver(started[CHILD.goal])
    # The parent's step goes on, because a child has ended.
    again, left = (await taken(worker, 1)).popitem()[1], started[LEFT.goal]
    await worker.deliver(left, waits(below=CHILD))
    below = (await taken(worker, 1)).popitem()[1]
    assert again.run.run_id == RUN
    await worker.executor.send(TENANT, RUN, Cancel())
    runs = {"left": left, "below": below, "ended": started[CHILD.goal]}
    return {name: one.run.run_id for name, one in runs.items()}


async def taken(worker: FakeWorker, many: int) -> dict[str, Assignment]:
    """Return the next steps that the worker has, by the goals of their runs."""
    assigned = [await worker.next() for _ in range(many)]
    return {one.run.goal: one for one in assigned}


async def specs(world: ExecutorWorld, runs: dict[str, str]) -> dict[str, RunSpec]:
    return {name: (await world.run(run_id)).spec for name, run_id in runs.items()}


async def check_freed(world: ExecutorWorld, runs: dict[str, str]) -> None:
    """Check that nothing names the deleted run any more, and that the left child is a root."""
    now = await specs(world, runs)
    assert await world.store.get_run(TENANT, RUN) is None
    assert await children_of(world) == []
    assert (now["left"].child_of, now["left"].labels) == (ChildOf(), {"team": "x"})
    assert (now["ended"].child_of, now["ended"].labels) == (ChildOf(), {})
    left, place = runs["left"], now["below"].child_of
    assert (place.run_id, place.root_run_id, place.depth) == (left, left, 1)
    assert now["below"].labels == {"stepwell.parent": left, "stepwell.root": left}


async def test_children_of_a_deleted_run_are_roots_of_their_own_trees() -> None:
    async with executor_world() as world:
        _, worker = world.mortal()
        runs = await tree(world, worker)
        before = await specs(world, runs)
        assert {before[name].child_of.run_id for name in ("left", "ended")} == {RUN}
        assert {one.child_of.root_run_id for one in before.values()} == {RUN}
        await delete_run(worker.executor, TENANT, RUN)
        await check_freed(world, runs)

        # The left child and its own go on: the one below ends, and its parent starts another.
        executor = worker.executor
        await executor.send(TENANT, runs["below"], Cancel())
        await worker.deliver(await worker.next(), waits(other=LEFT))
        other = (await worker.next()).run.run_id
        place = (await world.run(other)).spec.child_of
        assert (place.run_id, place.root_run_id, place.depth) == (runs["left"], runs["left"], 1)
        await executor.send(TENANT, runs["left"], Cancel())
        await executor.drain()
        left = await world.run(runs["left"])
        assert (left.status, left.letters.first) == (RunStatus.CANCELLED, left.letters.next)


@pytest.mark.parametrize("commits", range(2))
async def test_an_interrupted_deletion_is_completed_by_the_next(commits: int) -> None:
    """The replica dies after this many groups of commits: those of the children, then the one of the run below."""
    async with executor_world() as world:
        runs = await tree(world, world.mortal()[1])
        dying = world.mortal(commits)[1].executor
        with pytest.raises(StoreUnavailable):
            await delete_run(dying, TENANT, RUN)
        await delete_run((await world.succeed(dying)).executor, TENANT, RUN)
        await check_freed(world, runs)


async def test_purged_runs_leave_no_child_that_names_them() -> None:
    async with executor_world() as world:
        _, worker = world.mortal()
        runs = await tree(world, worker)
        query = EndedQuery(tenant_id=TENANT, statuses=(RunStatus.CANCELLED,), limit=9)
        forget = worker.executor.forget
        assert (await purge(worker.executor, query, forget, rehearse=False)).run_ids == [RUN]
        await check_freed(world, runs)
