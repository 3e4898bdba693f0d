"""Budgets on every store: used up, paused, told, raised; the worker is told what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stepwell.config import BudgetSettings, BudgetsSettings
from stepwell_client import (
    Agent,
    Budget,
    FailedPrecondition,
    InvalidRequest,
    PauseReason,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.capabilities.conftest import Served
from tests.service.conftest import ME, RawWorker, completed
from tests.service.conftest import Client as RawClient

ACCEPTED, LOST = wpb.ACK_STATUS_ACCEPTED, wpb.ACK_STATUS_LEASE_LOST
CHAIN = [
    Task(name, depends_on=earlier, heartbeat_timeout=30.0)
    for name, earlier in (("a", []), ("b", ["a"]), ("c", ["b"]))
]
"""Their leases outlast what a worker by hand does with them, who says nothing meanwhile."""


def spending(tokens: int = 10, left: list[int] | None = None) -> Agent:
    """Return an agent whose every task uses so many tokens and notes what it was told is left."""
    agent = Agent("spending")

    @agent.task()
    def spend(ctx: TaskContext) -> str:
        ctx.usage(input_tokens=tokens, cost_micros=tokens)
        if left is not None:
            remaining = ctx.remaining_budget
            left.append(remaining.input_tokens if remaining is not None else -1)
        return ctx.task_id

    return agent


async def until_paused(served: Served, run_id: str, times: int = 1) -> types_pb2.Run:
    """Follow the run until it has been paused so often."""
    async with served.client.watch(run_id) as events:
        async for event in events:
            times -= event.type == types_pb2.EVENT_TYPE_RUN_PAUSED
            if not times:
                break
    return await served.client.get(run_id)


@asynccontextmanager
async def raw_worker(
    served: Served, target: str = ""
) -> AsyncIterator[tuple[RawClient, RawWorker]]:
    client = RawClient(target or served.target)
    try:
        async with client.worker(queues=["q"]) as worker:
            yield client, worker
    finally:
        await client.channel.close()


async def test_a_budget_pauses_the_run_and_a_raise_lets_it_go_on(served_everywhere: Served) -> None:
    served = served_everywhere
    left: list[int] = []
    async with served.worker(spending(left=left)):
        run = await served.client.start(plan=CHAIN, budget=Budget(input_tokens=20))
        paused = await until_paused(served, run.id)
        assert paused.status == RunStatus.PAUSED
        assert paused.pause_reason == PauseReason.BUDGET_EXHAUSTED
        assert paused.reason.startswith("input_tokens: 20 of 20 used")
        assert paused.blocked_on == types_pb2.BLOCKED_KIND_BUDGET
        with pytest.raises(FailedPrecondition, match="input_tokens: 20 of 20 used") as refused:
            await run.resume()
        assert refused.value.reason == "BUDGET_EXHAUSTED"
        raised = await run.raise_budget(Budget(input_tokens=100), reason="go on")
        assert raised.budget.input_tokens == 100
        assert (await run.wait()).status == RunStatus.SUCCEEDED
    assert left == [20, 10, 80]


async def test_usage_survives_a_restart(served: Served) -> None:
    async with served.worker(spending()):
        run = await served.client.start(plan=CHAIN, budget=Budget(cost_micros=10, tasks=9))
        await until_paused(served, run.id)
    await served.restart()
    seen = await served.client.get(run.id)
    assert (seen.usage.cost_micros, seen.tally.tasks) == (10, 1)
    async with served.worker(spending()):
        answer = await served.client.raise_budget(run.id, Budget(cost_micros=11))
        assert answer.changed or not served.calm
        paused = await until_paused(served, run.id, times=2)
        assert paused.reason.startswith("cost_micros: 20 of 11 used")


async def test_usage_that_is_sent_to_two_replicas_counts_once(served_everywhere: Served) -> None:
    served = served_everywhere
    if served.store_kind == "sqlite":
        pytest.skip("a SQLite file is one process's")
    other = (await served.replica()).addresses[0]
    run = await served.client.start(plan=CHAIN[:1], queue="q", budget=Budget(input_tokens=1_000))
    elsewhere = RawClient(other)
    async with raw_worker(served) as (client, worker):
        got = await worker.assignment()
        outcome = completed(got, usage=types_pb2.Usage(input_tokens=7))
        calls = [
            one.work.Complete(wpb.CompleteRequest(outcomes=[outcome]), metadata=ME)
            for one in (client, elsewhere, client, elsewhere)
        ]
        answers = await asyncio.gather(*calls)
    await elsewhere.channel.close()
    assert sorted(answer.acks[0].status for answer in answers) == [ACCEPTED, LOST, LOST, LOST]
    assert (await served.client.get(run.id)).usage.input_tokens == 7


async def test_a_tenants_default_holds_part_by_part_where_the_request_says_nothing(
    served: Served,
) -> None:
    settings = BudgetsSettings(
        default=BudgetSettings(input_tokens=10, tasks=50, iterations=7),
        tenants={
            "tenant-a": BudgetSettings(input_tokens=20, iterations=0, wall_ms=5_000),
            "tenant-b": BudgetSettings(input_tokens=1),
        },
    )
    await served.restart(budgets=settings)
    run = await served.client.start(plan=CHAIN, budget=Budget(cost_micros=3, wall=9.0))
    budget = (await run.refresh()).budget
    assert (budget.input_tokens, budget.cost_micros, budget.tasks) == (20, 3, 50)
    assert (budget.wall.ToMilliseconds(), budget.iterations) == (9_000, 0)


async def test_a_bad_budget_is_refused_by_field(served_memory: Served) -> None:
    client = served_memory.client
    with pytest.raises(InvalidRequest) as negative:
        await client.start(plan=CHAIN, budget=Budget(input_tokens=-1))
    assert [one.field for one in negative.value.violations] == ["budget.input_tokens"]
    run = await client.start(plan=CHAIN, budget=Budget(input_tokens=10, wall=60.0))
    with pytest.raises(InvalidRequest) as below_zero:
        await run.raise_budget(Budget(cost_micros=-1, wall=-1.0))
    fields = {one.field for one in below_zero.value.violations}
    assert fields == {"budget.cost_micros", "budget.wall"}
    with pytest.raises(InvalidRequest, match="lower") as lowered:
        await run.raise_budget(Budget(input_tokens=9, output_tokens=1, wall=1.0))
    assert lowered.value.reason == "BUDGET_LOWERED"
    fields = {one.field for one in lowered.value.violations}
    assert fields == {"budget.input_tokens", "budget.output_tokens", "budget.wall"}
    again = await client.raise_budget(run.id, Budget(input_tokens=11), request_id="r")
    assert again.changed or not served_memory.calm
    same = await client.raise_budget(run.id, Budget(input_tokens=11), request_id="r")
    assert not same.changed
    assert (await client.get(run.id)).budget.input_tokens == 11
