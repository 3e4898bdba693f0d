"""Limits of queues: replicas share them."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.config import QueueSettings
from stepwell_client import Agent, RunStatus, Task, TaskContext
from tests.service.capabilities.conftest import Served

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
    await served.restart(queues=LIMITED)
    other = await served.replica(queues=LIMITED)
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
        runs = [await served.client.start("x", plan=tasks(8), queue="narrow") for _ in range(3)]
        for run in runs:
            assert (await run.wait()).status == RunStatus.SUCCEEDED
    assert gauge.most == 2
