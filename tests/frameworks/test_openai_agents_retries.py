"""Requests that the OpenAI Agents SDK makes again within a step: each is one call, whatever else runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, ModelRetrySettings, ModelSettings
from agents.testing import ModelStep, ScriptedModel

from stepwell_client import NonRetryable, TaskContext
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner
from tests.frameworks.scripted_openai import step_of
from tests.support.journal import Crash, JournaledStep, crashed, result_of

END = types_pb2.JOURNAL_MARK_END


async def test_request_that_is_made_again_while_an_equal_one_runs_keeps_its_key() -> None:
    both = asyncio.Event()

    async def answer(call: Any) -> Any:
        number = len(model.calls)
        if number == 1:
            await both.wait()
            raise ConnectionError("the line was cut")
        if number == 2:
            both.set()
            await again.wait()
        else:
            again.set()
        return step_of(f"answer {number}")

    async def sampled(ctx: TaskContext) -> list[str]:
        results = await asyncio.gather(*[StepwellRunner.run(agent, "a word") for _ in range(2)])
        return [one.final_output for one in results]

    again = asyncio.Event()
    model = ScriptedModel([ModelStep.respond(answer)] * 3)
    retry = ModelRetrySettings(max_retries=2, policy=lambda _: True)
    agent = Agent(name="reader", model=model, model_settings=ModelSettings(retry=retry))

    step = JournaledStep()
    assert result_of(await step.attempt(sampled)) == ["answer 3", "answer 2"]
    assert sorted(one.key[-2:] for one in step.kept(END)) == ["#1", "#2"]


async def test_request_that_failed_for_good_is_made_no_more_in_the_next_attempt() -> None:
    async def answer(call: Any) -> Any:
        raise NonRetryable("the model is gone")

    async def work(ctx: TaskContext) -> None:
        with pytest.raises(NonRetryable):
            await StepwellRunner.run(agent, "a word")
        raise Crash

    model = ScriptedModel([ModelStep.respond(answer)] * 9)
    retry = ModelRetrySettings(max_retries=1, policy=lambda _: True)
    agent = Agent(name="reader", model=model, model_settings=ModelSettings(retry=retry))

    step = JournaledStep()
    await crashed(step, work)
    asked = len(model.calls)
    await crashed(step, work)
    assert asked == len(model.calls) == 1


async def test_time_out_within_a_call_has_the_same_outcome_in_each_attempt() -> None:
    async def answer(call: Any) -> Any:
        if len(model.calls) > 1:
            return step_of("answer")
        limits[0].reschedule(asyncio.get_running_loop().time())
        return await asyncio.Event().wait()

    async def in_time(question: str) -> str | None:
        try:
            async with asyncio.timeout(None) as limit:
                limits.append(limit)
                return (await StepwellRunner.run(agent, question)).final_output
        except TimeoutError:
            return None

    async def work(ctx: TaskContext) -> str:
        found = await ctx.call("in time", in_time, "a word")
        if ctx.attempt == 1:
            raise Crash
        return found or "too late"

    limits: list[asyncio.Timeout] = []
    model = ScriptedModel([ModelStep.respond(answer)] * 3)
    agent = Agent(name="reader", model=model)

    step = JournaledStep()
    assert await step.after_crash(work) == "too late"
    assert len(model.calls) == 1
    assert [one.name for one in step.services.entries.values()] == ["in time"]
