"""Calls and questions within the steps of an embedded run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.embedded import Orchestrator, RunFailed
from stepwell_client import (
    Agent,
    Effect,
    PlanContext,
    QuestionKind,
    Retry,
    RunStatus,
    Task,
    TaskContext,
)

QUICKLY = Retry(initial_backoff=0.001)


class Counted:
    """A function that counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, *arguments: Any) -> int:
        self.runs += 1
        return self.runs


async def test_a_retried_attempt_makes_its_recorded_calls_no_more() -> None:
    agent, search = Agent(), Counted()

    @agent.task("work")
    async def work(ctx: TaskContext) -> Any:
        ctx.usage(input_tokens=1)
        found = await asyncio.gather(*(ctx.call("search", search, word) for word in "abc"))
        if ctx.attempt < 3:
            raise ValueError
        return [found, await ctx.call("search", search, "d")]

    orchestrator = Orchestrator("work", agent, plan=[Task("w", "work", retry=QUICKLY)])
    result = await orchestrator.run()

    assert result.status is RunStatus.SUCCEEDED, result
    assert result.value == {"w": [[1, 2, 3], 4]}


async def test_usage_of_calls_is_added_once() -> None:
    agent, runs = Agent(), list[int]()

    @agent.task("work")
    async def work(ctx: TaskContext) -> None:
        async def model() -> str:
            runs.append(1)
            ctx.usage(input_tokens=100)
            return "said"

        await ctx.call("model", model)
        if ctx.attempt < 3:
            raise ValueError

    orchestrator = Orchestrator("work", agent, plan=[Task("w", "work", retry=QUICKLY)])
    result = await orchestrator.run()

    assert result.status is RunStatus.SUCCEEDED
    assert (len(runs), result.run.usage.input_tokens) == (1, 100)


@pytest.mark.parametrize("threads", [False, True])
async def test_a_step_that_asks_goes_on_from_its_calls(threads: bool) -> None:
    agent, search = Agent(), Counted()

    async def work(ctx: TaskContext) -> Any:
        found = await ctx.call("search", search)
        answers = await asyncio.gather(
            ctx.ask("Title?", key="title"), ctx.ask("Sure?", kind=QuestionKind.APPROVAL, key="sure")
        )
        return [found, *answers]

    def work_in_thread(ctx: TaskContext) -> Any:
        found = ctx.call_sync("search", search)
        return [found, ctx.ask_sync("Title?", key="title"), ctx.ask_sync("Sure?", key="sure")]

    agent.task("work")(work_in_thread if threads else work)
    orchestrator = Orchestrator("work", agent, plan=[Task("w", "work")])
    for prompts in (["Sure?", "Title?"],) if not threads else (["Title?"], ["Sure?"]):
        assert (await orchestrator.run()).status is RunStatus.WAITING
        asked = await orchestrator.questions()
        assert sorted(one.prompt for one in asked) == prompts
        for one in asked:
            await orchestrator.answer(one.id, "Ada" if one.prompt == "Title?" else True)
    result = await orchestrator.run()

    assert result.value == {"w": [1, "Ada", True]}
    assert search.runs == 1


async def test_an_answer_is_the_value_of_no_other_question_with_its_key() -> None:
    agent = Agent()

    @agent.task("work")
    async def work(ctx: TaskContext) -> Any:
        which = "the draft" if ctx.attempt == 1 else "all"
        return await ctx.ask(f"Delete {which}?", kind=QuestionKind.APPROVAL, key="ok")

    orchestrator = Orchestrator("work", agent, plan=[Task("w", "work")])
    assert (await orchestrator.run()).status is RunStatus.WAITING
    (asked,) = await orchestrator.questions()
    await orchestrator.answer(asked.id, True)
    with pytest.raises(RunFailed, match="JournalMismatch: the journal has the call ok"):
        await orchestrator.run()


async def test_a_planner_asks_and_goes_on() -> None:
    agent = Agent()

    @agent.plan
    async def plan(ctx: PlanContext) -> list[Task]:
        return [Task(str(await ctx.ask("Which task?")), "work")]

    @agent.task("work")
    def work(ctx: TaskContext) -> str:
        return ctx.task_id

    orchestrator = Orchestrator("work", agent)
    assert (await orchestrator.run()).status is RunStatus.WAITING
    (asked,) = await orchestrator.questions()
    await orchestrator.answer(asked.id, "t7")
    assert (await orchestrator.run()).value == {"t7": "t7"}


async def test_a_call_begun_by_a_failed_attempt_is_known_to_have_failed() -> None:
    agent, tries = Agent(), list[int]()

    @agent.task("work")
    async def work(ctx: TaskContext) -> str:
        async def charge() -> str:
            tries.append(ctx.attempt)
            if len(tries) == 1:
                raise OSError
            return "paid"

        return await ctx.call("charge", charge, effect=Effect.AT_MOST_ONCE)

    orchestrator = Orchestrator("work", agent, plan=[Task("w", "work", retry=QUICKLY)])
    assert (await orchestrator.run()).value == {"w": "paid"}
    assert tries == [1, 2]
