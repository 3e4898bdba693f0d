"""Budgets from start to raise: used up, paused, raised; the worker is told what is left."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stepwell.config import BudgetSettings, BudgetsSettings
from stepwell_client import (
    Agent,
    Budget,
    EventType,
    FailedPrecondition,
    Run,
    RunStatus,
    Task,
    TaskContext,
)
from stepwell_client.enums import PauseReason
from stepwell_client.v1 import types_pb2
from tests.service.capabilities.conftest import Served

CHAIN = [Task("a"), Task("b", depends_on=["a"]), Task("c", depends_on=["b"])]


def spending(left: list[int]) -> Agent:
    """Return an agent whose every task uses ten tokens and notes what it was told is left."""
    agent = Agent("spending")

    @agent.task()
    def spend(ctx: TaskContext) -> str:
        ctx.usage(input_tokens=10)
        assert ctx.remaining_budget is not None
        left.append(ctx.remaining_budget.input_tokens)
        return ctx.task_id

    return agent


async def until_paused(served: Served, run_id: str) -> Run:
    """Follow the run until it has been paused."""
    async with served.client.run(run_id).watch() as events:
        async for event in events:
            if event.type == EventType.RUN_PAUSED:
                break
    return await served.client.run(run_id).get()


async def test_a_budget_pauses_the_run_and_a_raise_lets_it_go_on(served_everywhere: Served) -> None:
    served = served_everywhere
    left: list[int] = []
    async with served.worker(spending(left)):
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
    budget = (await run.get()).budget
    assert (budget.input_tokens, budget.cost_micros, budget.tasks) == (20, 3, 50)
    assert (budget.wall, budget.iterations) == (timedelta(seconds=9), 0)
