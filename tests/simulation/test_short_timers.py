"""Timers under a second: the executor's own commits are claimed when they come due, not at the next poll."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stepwell.core.loop.occurrences import Failed, Start
from stepwell.core.records.model import Failure, RetryPolicy, RunSpec, TaskSpec
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.store.opener import open_store
from tests.simulation.simulator.loop import VirtualLoop
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime
from tests.unit.engine.executor_world import RUN, TENANT, FakeWorker

LATE_MS_MAX = 20
RETRY = RetryPolicy(initial_backoff_ms=50, max_backoff_ms=50, jitter=0.0)


async def _start(worker: FakeWorker, task: TaskSpec, *, delay_ms: int = 0) -> None:
    spec = RunSpec(tenant_id=TENANT, run_id=RUN, start_delay_ms=delay_ms)
    await worker.executor.send(TENANT, RUN, Start(spec=spec, plan=(task,)))


async def _fail_once(worker: FakeWorker) -> None:
    await _start(worker, TaskSpec(task_id="a", retry=RETRY))
    await worker.deliver(await worker.next(), Failed(failure=Failure(kind="X", retryable=True)))


async def _begin(worker: FakeWorker) -> None:
    await _start(worker, TaskSpec(task_id="a", attempt_timeout_ms=300))
    await worker.next()


async def _start_later(worker: FakeWorker) -> None:
    await _start(worker, TaskSpec(task_id="a"), delay_ms=300)


@pytest.mark.parametrize(
    ("prepare", "event", "due_ms"),
    [
        (_fail_once, FakeWorker.next, 50),
        (_begin, lambda worker: worker.cancelled.get(), 300),
        (_start_later, FakeWorker.next, 300),
    ],
    ids=["back-off", "attempt_timeout", "start_delay"],
)
def test_timer_under_a_second_is_not_late(
    prepare: Callable[[FakeWorker], Awaitable[None]],
    event: Callable[[FakeWorker], Awaitable[object]],
    due_ms: int,
) -> None:
    loop = VirtualLoop()

    async def milliseconds() -> float:
        runtime = SimRuntime(loop, Rng("short timers"))
        store = await open_store("memory://", runtime=runtime)
        executor = Executor(store, runtime, ExecutorConfig())
        executor.start()
        # The first claim is over: the next one would be a poll.
        await asyncio.sleep(0.1)
        worker = FakeWorker(executor)
        await worker.attach(2)
        await prepare(worker)
        began = loop.time()
        await event(worker)
        passed = loop.time() - began
        await executor.close()
        await store.close()
        return passed * 1_000

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert due_ms <= runner.run(milliseconds()) <= due_ms + LATE_MS_MAX
