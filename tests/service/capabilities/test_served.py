"""The world of these tests itself: a run goes through it on each store, and survives a restart."""

from __future__ import annotations

from stepwell_client import Agent, RunStatus, Task, TaskContext
from tests.service.capabilities.conftest import Served


def counting() -> Agent:
    agent = Agent("counting")

    @agent.task("count")
    def count(ctx: TaskContext, text: str) -> int:
        return len(text.split())

    return agent


async def test_a_run_is_there_after_a_restart(served_everywhere: Served) -> None:
    served = served_everywhere
    run = await served.client.start("count", plan=[Task("a", "count", input="one two")])
    await served.restart()
    async with served.worker(counting()):
        assert (await served.client.wait(run.id)).status == RunStatus.SUCCEEDED
