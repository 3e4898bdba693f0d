"""A run changed on its way, on every store: a task again, a task left out, the last iteration."""

from __future__ import annotations

import asyncio

import pytest

from stepwell_client import (
    Agent,
    FailedPrecondition,
    NotFound,
    OnFailure,
    Retry,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client.v1 import types_pb2
from tests.service.capabilities.conftest import Served

ONCE = Retry(max_attempts=1)


def moody(broken: set[str]) -> Agent:
    """Return an agent whose tasks fail while their id is among these."""
    agent = Agent("moody")

    @agent.task()
    def do(ctx: TaskContext) -> str:
        if ctx.task_id in broken:
            raise ValueError(f"{ctx.task_id} is broken")
        return ctx.task_id

    return agent


async def until(served: Served, run_id: str, kind: types_pb2.EventType, task_id: str = "") -> None:
    async with served.client.run(run_id).watch() as events:
        async for event in events:
            if event.type == kind and (not task_id or event.task_id == task_id):
                return


async def test_failed_run_stays_failed_on_resume_unless_its_tasks_are_retried(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    run = await served.client.start(plan=[Task("a", retry=ONCE)])
    async with served.worker(moody({"a"})):
        failed = await run.wait()
        kept = await served.client.run(run.id).resume(retry_failed=False)
    await served.restart()
    async with served.worker(moody(set())):
        again = await served.client.run(run.id).get()
        assert [one.status for one in (failed, kept, again)] == [RunStatus.FAILED] * 3
        assert again.failure is not None
        assert again.failure.message == "a is broken"
        assert len([one async for one in served.client.run(run.id).executions()]) == 1

        await served.client.run(run.id).resume()
        assert (await served.client.run(run.id).wait()).status == RunStatus.SUCCEEDED


async def test_function_that_hangs_is_tried_again_after_its_idle_time_out(served: Served) -> None:
    agent = Agent("hangs")

    @agent.task()
    async def do(ctx: TaskContext) -> int:
        ctx.log(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    again = Retry(initial_backoff=0.0)
    async with served.worker(agent):
        run = await served.client.start(plan=[Task("a", "do", idle_timeout=0.2, retry=again)])
        assert await run.result() == {"a": 2}
    (first, _) = [one async for one in served.client.run(run.id).executions()]
    assert first.status == types_pb2.EXECUTION_STATUS_TIMED_OUT
    assert first.failure is not None
    assert first.failure.message == "its function did nothing for 0.2 s"


async def test_a_failed_task_runs_again_with_what_was_skipped_because_of_it(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    broken = {"a"}
    plan = [
        Task("a", retry=ONCE, on_failure=OnFailure.SKIP_DEPENDENTS),
        Task("b", depends_on=["a"]),
        Task("wait", role="later"),
    ]
    async with served.worker(moody(broken)):
        run = await served.client.start(plan=plan)
        await until(served, run.id, types_pb2.EVENT_TYPE_TASK_FAILED)
        broken.clear()
        with pytest.raises(NotFound) as nobody:
            await run.retry_task("nobody")
        assert nobody.value.reason == "TASK_NOT_FOUND"
        seen = await run.retry_task("a", reason="mended")
        assert (seen.counts.failed, seen.counts.skipped) == (0, 0)
        await until(served, run.id, types_pb2.EVENT_TYPE_TASK_COMPLETED, "b")
        with pytest.raises(FailedPrecondition) as done:
            await run.retry_task("a")
        assert done.value.reason == "TASK_STATUS"
        await run.skip_task("wait")
        assert await run.result() == {"a": "a", "b": "b"}
