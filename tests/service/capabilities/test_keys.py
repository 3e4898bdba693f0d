"""Idempotency keys over each store: runs that wait for one another, and one that waits for its own starter."""

from __future__ import annotations

from stepwell_client import (
    Agent,
    BlockedKind,
    Run,
    RunStatus,
    Task,
    TaskContext,
    TaskStatus,
)
from tests.service.capabilities.conftest import Served


async def test_run_that_a_task_started_is_shown_as_waiting_for_its_key_and_gives_up(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    agent, seen = Agent("nested"), list[Run]()

    @agent.task("outer")
    async def outer(ctx: TaskContext) -> str:
        inner = Task("b", "inner", idempotency_key="k", total_timeout=2)
        run = await served.client.start("inside", plan=[inner])
        async for _ in run.watch():
            seen.append(await served.client.run(run.id).get())
            if seen[-1].blocked_on == BlockedKind.KEY:
                break
        seen.append(await run.wait())
        return ctx.run_id

    @agent.task("inner")
    def inner(ctx: TaskContext) -> None:
        raise AssertionError(f"{ctx.run_id} ran beside the task that has its key")

    async with served.worker(agent, concurrency=2):
        run = await served.client.start("outside", plan=[Task("a", "outer", idempotency_key="k")])
        assert (await run.wait()).status == RunStatus.SUCCEEDED
    waiting, ended = seen[-2:]
    assert (waiting.blocked_on, waiting.blocked_run_id) == (BlockedKind.KEY, run.id)
    assert ended.failure is not None
    assert (ended.status, ended.failure.kind) == (RunStatus.FAILED, "TOTAL_TIMEOUT")
    (entry,) = [one async for one in served.client.run(ended.id).tasks()]
    assert entry.status == TaskStatus.FAILED
