"""Budgets of a run in the caller's process."""

from __future__ import annotations

import pytest

from stepwell.core.records.errors import InvalidArgument
from stepwell.embedded import Orchestrator
from stepwell_client import Agent, Budget, RunStatus, Task, TaskContext
from stepwell_client.enums import PauseReason

CHAIN = [Task("a"), Task("b", depends_on=["a"])]


def spending(left: list[int]) -> Agent:
    agent = Agent("spending")

    @agent.task()
    def spend(ctx: TaskContext) -> str:
        ctx.usage(output_tokens=10)
        assert ctx.remaining_budget is not None
        left.append(ctx.remaining_budget.output_tokens)
        return ctx.task_id

    return agent


async def test_a_run_is_paused_at_its_budget_and_goes_on_once_it_is_raised() -> None:
    left: list[int] = []
    made = Orchestrator("", spending(left), plan=CHAIN, budget=Budget(output_tokens=10))
    paused = await made.run()
    assert paused.status is RunStatus.PAUSED
    assert paused.run.pause_reason is PauseReason.BUDGET_EXHAUSTED
    with pytest.raises(InvalidArgument):
        await made.raise_budget(Budget(output_tokens=5))
    await made.raise_budget(Budget(output_tokens=50))
    done = await made.run()
    assert done.status is RunStatus.SUCCEEDED
    assert left == [10, 40]


def test_a_budget_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"budget\.cost_micros"):
        Orchestrator("", spending([]), plan=CHAIN, budget=Budget(cost_micros=-1))
