"""A replica that remembers what the store has lost: it must notice, and go on from what is there.

Between a fail-over and the replica's next commit others may have made the run as long again, so that its
version alone tells nothing.
"""

from __future__ import annotations

import asyncio

import pytest

from stepwell.core.loop.occurrences import SkipTask, Start
from stepwell.core.loop.state import RunState
from stepwell.core.port import Store
from stepwell.core.records.model import RunSpec, TaskSpec
from stepwell.core.records.states import TaskStatus
from stepwell.engine.executor import Executor
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance.builders import TENANT
from tests.chaos.faults.fail_overs import KEYS, lose_master
from tests.chaos.load.chains import opened
from tests.support.backends.cluster import RedisCluster

RUN = "remembered"
TASKS = ("lost", "other", "third", "fourth", "last")
SLOT = KEYS.of_run(TENANT, RUN).partition.slot


async def skip(executor: Executor, task_id: str) -> None:
    """Make one commit that settles a task."""
    await executor.send(TENANT, RUN, SkipTask(task_id=task_id))


async def settled(store: Store) -> set[str]:
    """Return the tasks that are settled by the store's rows, which the run's row agrees with."""
    loaded = await store.load(TENANT, RUN)
    assert loaded is not None
    state = RunState.of(loaded)
    skipped = {name for name, one in state.tasks.items() if one.status is TaskStatus.SKIPPED}
    assert state.run.counts.skipped == len(skipped)
    return skipped


@pytest.mark.parametrize("others", [1, 2], ids=["as long again", "longer than before"])
async def test_S2_decision_on_a_lost_version_is_made_again(
    cluster: RedisCluster, others: int
) -> None:
    master = cluster.owner(SLOT)
    heir = cluster.replica_of(master)
    runtime = SystemRuntime()
    async with (
        opened(cluster.url(all_nodes=True, wait="1")) as safe,
        opened(cluster.url(all_nodes=True)) as one,
        opened(cluster.url(all_nodes=True)) as other,
    ):
        start = Start(
            spec=RunSpec(tenant_id=TENANT, run_id=RUN),
            plan=tuple(TaskSpec(task_id=name) for name in TASKS),
        )
        await Executor(safe, runtime).send(TENANT, RUN, start)
        remembers, fresh = Executor(one, runtime), Executor(other, runtime)
        await asyncio.to_thread(cluster.nodes[heir].cut_off)
        await skip(remembers, "lost")
        assert await settled(one) == {"lost"}
        await asyncio.to_thread(lose_master, cluster, master, heir)
        for name in ("other", "third")[:others]:
            await skip(fresh, name)
        await skip(remembers, "fourth")
        expected = {"other", "third", "fourth"} if others == 2 else {"other", "fourth"}
        assert await settled(one) == expected
        # Each would now end the run a task too early, if it counted the lost one.
        for name in TASKS[1:]:
            await skip(remembers, name)
        assert await settled(other) == set(TASKS[1:])
        run = await one.get_run(TENANT, RUN)
        assert run is not None
        assert not run.ended
        await skip(remembers, "lost")
        run = await one.get_run(TENANT, RUN)
        assert run is not None
        assert run.ended
