"""Pauses that child runs follow, over an executor: delivered down the tree, whatever stops in between."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepwell.core.loop.occurrences import Pause, Resume
from stepwell.core.records.states import PauseReason, RunStatus
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import RUN, TENANT, executor_world
from tests.unit.engine.test_executor_children import CHILD, undelivered, waits

FOLLOWS = replace(CHILD, follow_pauses=True)


@pytest.mark.parametrize("commits", range(1, 11))
async def test_a_replica_that_dies_in_a_pause_or_its_end_leaves_no_child_behind(
    commits: int,
) -> None:
    """Another replica takes over after this many commits of a pause and a resume of the root."""
    async with executor_world() as world:
        store, worker = world.mortal()
        executor = worker.executor
        await worker.attach(5)
        await world.start(executor, chain("a"))
        await worker.deliver(await worker.next(), waits(kid=FOLLOWS))
        work = await worker.next()
        await worker.deliver(work, waits(grandkid=FOLLOWS))
        kids = (work.run.run_id, (await worker.next()).run.run_id)
        family = (RUN, *kids)
        await executor.drain()

        async def settled() -> None:
            for _ in range(100):
                if sum([await undelivered(world, one) for one in family]) == 0:
                    return
                world.pass_time(1_000)
                await turns(50)

        store.left = commits
        await executor.send(TENANT, RUN, Pause())
        await turns(200)
        alive = store.left > 0
        if not alive:
            executor = (await world.succeed(executor)).executor
            await settled()
        for one in kids:
            run = await world.run(one)
            assert (run.status, run.pause_reason) == (RunStatus.PAUSED, PauseReason.PARENT)
        await executor.send(TENANT, RUN, Resume())
        await turns(200)
        if alive:
            executor = (await world.succeed(executor)).executor
        await settled()
        await executor.drain()
        assert [(await world.run(one)).pause_reason for one in family] == [PauseReason.NONE] * 3
        assert [await undelivered(world, one) for one in family] == [0, 0, 0]
