"""Costs of steps, in counts: these don't depend on the machine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from stepwell.core.records.model import TaskSpec
from stepwell_testkit.runtime import ManualRuntime
from tests.unit.executor_world import (
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    delivery,
    executor_world,
)

RUNS = 16
COSTS = {
    "task turns": 1,
    "task committer": 1,
    "store commit": 1,
}
"""All that it takes to commit the outcomes of so many runs that came together, and to lease their next steps."""


@pytest.fixture
async def world() -> AsyncIterator[ExecutorWorld]:
    async with executor_world() as world:
        yield world


async def test_outcomes_that_come_together_cost_as_much_as_one(
    world: ExecutorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: Counter[str] = Counter()
    spawn = ManualRuntime.spawn

    def counted(self: ManualRuntime, work: Coroutine[Any, Any, Any], *, name: str) -> Any:
        costs[f"task {name}"] += 1
        return spawn(self, work, name=name)

    async def call(method: str, *_: Any, **__: Any) -> None:
        costs[f"store {method}"] += 1

    executor = world.executor(Rigged(world.store, call), poll_ms=600_000)
    worker = FakeWorker(executor)
    await worker.attach(credits=2 * RUNS)
    chain = [TaskSpec(task_id="a"), TaskSpec(task_id="b", depends_on=("a",))]
    runs = [f"00000000-0000-4000-8000-{number:012}" for number in range(RUNS)]
    for run_id in runs:
        await world.start(executor, chain, run_id=run_id)
    got = [await worker.next() for _ in runs]
    await executor.quiet()
    costs.clear()
    monkeypatch.setattr(ManualRuntime, "spawn", counted)
    replies = [executor.deliver(TENANT, one.run.run_id, delivery(one)) for one in got]
    await asyncio.gather(*replies)
    assert {(await worker.next()).execution.task_id for _ in runs} == {"b"}
    assert costs == COSTS
