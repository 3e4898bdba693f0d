"""Limits of queues: replicas share them."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.config import ExecutorSettings, QueueSettings
from stepwell_client import Agent, RunStatus, Task, TaskContext
from tests.service.capabilities.conftest import TENANT, Served
from tests.support.patience import until

LIMITED = {"narrow": QueueSettings(max_parallel=2)}


class Gauge:
    """An agent whose tasks say how many of them were at work at once."""

    def __init__(self, until: int = 0) -> None:
        """`until`: the first tasks go on only once so many are at work."""
        self.now = 0
        self.most = 0
        self._until = until
        self._enough = asyncio.Event()
        self.agent = Agent("gauge")
        self.agent.task(self.work)

    async def work(self, ctx: TaskContext) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.most >= self._until:
            self._enough.set()
        await self._enough.wait()
        await asyncio.sleep(0.005)
        self.now -= 1


def tasks(count: int) -> list[Task]:
    return [Task(f"t{n}") for n in range(count)]


async def test_replicas_share_a_queue_s_limit(served_everywhere: Served) -> None:
    served = served_everywhere
    if served.store_kind == "sqlite":
        pytest.skip("one process holds the file")
    # Who isn't heard of for so long gives its share up, and one that only stood still would still use it.
    calm = ExecutorSettings(poll_ms=100, hold_ms=200)
    await served.restart(queues=LIMITED, executor=calm)
    other = await served.replica(queues=LIMITED, executor=calm)
    gauge = Gauge(until=2)
    async with (
        served.worker(gauge.agent, queues=["narrow"], concurrency=8, worker_id="one"),
        served.worker(
            gauge.agent,
            queues=["narrow"],
            concurrency=8,
            worker_id="two",
            target=other.addresses[0],
        ),
    ):
        # Each has to hear of the other first.
        replicas = [served.server.deps.executor, other.deps.executor]

        async def share() -> bool:
            for one in replicas:
                await one._presence.divide_shares()
            return all(one._workers._shares.room(TENANT, "narrow") == 1 for one in replicas)

        await until(share)
        runs = [await served.client.start("x", plan=tasks(8), queue="narrow") for _ in range(3)]
        for run in runs:
            assert (await run.wait()).status == RunStatus.SUCCEEDED
    assert gauge.most == 2
