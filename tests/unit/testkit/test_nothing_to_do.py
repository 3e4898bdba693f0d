"""Agents that have nothing to do: each run ends with a result or with one clear failure, and none hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from stepwell.core.records.states import EventType
from stepwell.embedded.result import RunFailed
from stepwell_client import (
    Agent,
    Continue,
    NeedsAnswer,
    PlanContext,
    ReflectContext,
    Replan,
    SynthesizeContext,
    Task,
    TaskContext,
)
from stepwell_testkit.environment import Environment


def _planned(*tasks: Task, later: Sequence[Task] | None = None) -> Agent:
    """Return an agent that plans these tasks, and from the second iteration on `later`."""
    agent = Agent("nothing")

    @agent.plan
    def plan(ctx: PlanContext) -> list[Task]:
        return list(tasks if later is None or ctx.iteration == 1 else later)

    @agent.task("work")
    async def work(ctx: TaskContext) -> list[object]:
        return list(await asyncio.gather(*[]))

    return agent


def no_tasks() -> Agent:
    return _planned()


def gather_of_no_calls() -> Agent:
    return _planned(Task("a", "work"))


def dependency_that_stands_twice() -> Agent:
    return _planned(Task("a", "work"), Task("b", "work", depends_on=["a", "a"]))


def dependency_that_is_missing() -> Agent:
    return _planned(Task("b", "work", depends_on=["a"]))


def synthesis_of_no_results() -> Agent:
    agent = _planned()

    @agent.synthesize
    async def synthesize(ctx: SynthesizeContext) -> object:
        return {"results": len(ctx.results), "loaded": len(await ctx.load())}

    return agent


def _reflecting(last: Callable[[], object], later: Sequence[Task] | None = None) -> Agent:
    agent = _planned(Task("a", "work"), later=later)

    @agent.reflect
    def reflect(ctx: ReflectContext) -> object:
        return last()

    return agent


def continued_by_no_tasks() -> Agent:
    return _reflecting(lambda: Continue([]))


def replanned_to_no_tasks() -> Agent:
    return _reflecting(Replan, [])


def question_without_choices() -> Agent:
    agent = _planned(Task("a", "ask"))

    @agent.task("ask")
    def ask(ctx: TaskContext) -> object:
        if ctx.answer() is None:
            raise NeedsAnswer("which?", choices=())
        return ctx.answer()

    return agent


NO_TASK = r"^run \S+ FAILED: PLAN_INVALID: plan\.tasks: A plan has at least one task\.$"
ENDS: dict[Callable[[], Agent], object] = {
    gather_of_no_calls: {"a": []},
    no_tasks: NO_TASK,
    synthesis_of_no_results: NO_TASK,
    continued_by_no_tasks: NO_TASK,
    replanned_to_no_tasks: NO_TASK,
    dependency_that_stands_twice: "PLAN_INVALID: .* 'a' is named twice",
    dependency_that_is_missing: "PLAN_INVALID: .* 'a' is no task of this plan",
    question_without_choices: {"a": "blue"},
}
"""The result of each, or how its failure reads."""


@pytest.mark.parametrize("make", ENDS, ids=lambda make: make.__name__)
async def test_run_ends_by_a_result_or_one_failure(make: Callable[[], Agent]) -> None:
    expected = ENDS[make]
    async with Environment(make()) as env, asyncio.timeout(60):
        run = await env.start("nothing", max_iterations=3)
        if make is question_without_choices:
            await run.wait()
            await run.answer("blue")
        if not isinstance(expected, str):
            assert await run.result() == expected
            return
        with pytest.raises(RunFailed, match=expected):
            await run.result()
        history = await run.history()
        assert history.count(EventType.RUN_FAILED) == 1
        # A plan may be a model's, whose next one is better.
        assert history.count(EventType.STEP_RETRY_SCHEDULED) == 2
