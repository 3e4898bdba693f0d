"""Agents of the OpenAI Agents SDK within a step whose models stream, or that run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
from agents import Agent, function_tool
from agents.testing import ScriptedModel

from stepwell_client import Release, TaskContext
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner
from tests.frameworks.scripted_openai import scripted, step_of
from tests.support.journal import Crash, JournaledStep, result_of

END = types_pb2.JOURNAL_MARK_END
DELTA = "response.output_text.delta"
LAST = "response.completed"


class Paced(ScriptedModel):
    """A scripted model whose stream goes on after a piece of text once that was seen."""

    def __init__(self, *answers: str) -> None:
        super().__init__([step_of(one) for one in answers])
        self.seen = asyncio.Event()

    async def stream_response(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        async for event in super().stream_response(*given, **named):
            yield event
            if event.type == DELTA:
                await self.seen.wait()


def raw(event: Any) -> str:
    """Return the type of a model's event; of others nothing."""
    return event.data.type if event.type == "raw_response_event" else ""


async def test_streamed_text_is_shown_while_it_comes_and_once() -> None:
    model = Paced("two bees")
    agent = Agent(name="reader", model=model)
    step = JournaledStep()
    kept_at_delta: list[int] = []
    kept_at_last: list[int] = []
    events: list[list[str]] = []

    async def work(ctx: TaskContext) -> str:
        result = StepwellRunner.run_streamed(agent, "count")
        events.append([])
        async for event in result.stream_events():
            events[-1].append(raw(event))
            if raw(event) == DELTA:
                kept_at_delta.append(len(step.kept(END)))
                model.seen.set()
            if raw(event) == LAST:
                kept_at_last.append(len(step.kept(END)))
        if ctx.attempt == 1:
            raise Crash
        return result.final_output

    assert await step.after_crash(work) == "two bees"
    assert len(model.calls) == 1
    assert [text for text, _, chunk in step.services.written if chunk] == ["two bees"]
    assert kept_at_delta == [0]
    assert kept_at_last == [1, 1]
    assert [one for one in events[1] if one] == [LAST]
    (entry,) = step.kept(END)
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (10, 2)


async def test_tools_of_a_streamed_run_are_kept() -> None:
    model = scripted([("read", "c1", {})], "done")
    reads: list[int] = []

    @function_tool
    def read() -> str:
        reads.append(1)
        return "seen"

    agent = Agent(name="reader", model=model, tools=[read])

    async def work(ctx: TaskContext) -> str:
        result = StepwellRunner.run_streamed(agent, "go")
        async for _ in result.stream_events():
            pass
        if ctx.attempt == 1:
            raise Crash
        return result.final_output

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert len(reads) == 1
    assert len(model.calls) == 2


async def test_a_stream_that_is_left_early_keeps_nothing() -> None:
    model = Paced("two bees", "two bees")
    agent = Agent(name="reader", model=model)

    async def work(ctx: TaskContext) -> str:
        result = StepwellRunner.run_streamed(agent, "count")
        async for event in result.stream_events():
            if raw(event) == DELTA:
                if ctx.attempt == 1:
                    result.cancel()
                    raise Release("again")
                model.seen.set()
        return result.final_output

    step = JournaledStep()
    assert (await step.attempt(work)).HasField("released")
    assert not step.kept(END)
    assert result_of(await step.attempt(work)) == "two bees"
    assert len(model.calls) == 2


def in_a_loop_of_its_own(agent: Agent[Any]) -> Any:
    return asyncio.run(StepwellRunner.run(agent, "go"))


def by_the_sdk(agent: Agent[Any]) -> Any:
    # The SDK leaves the loop of a thread open, for its next run.
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        return StepwellRunner.run_sync(agent, "go")


@pytest.mark.parametrize("run", [in_a_loop_of_its_own, by_the_sdk])
def test_a_step_in_a_thread_runs_its_agent_there(run: Callable[[Agent[Any]], Any]) -> None:
    async def play() -> None:
        model = scripted([("find", "c1", {})], "done")
        loops: set[asyncio.AbstractEventLoop] = set()

        @function_tool
        async def find() -> str:
            loops.add(asyncio.get_running_loop())
            return "seen"

        agent = Agent(name="reader", model=model, tools=[find])

        def work(ctx: TaskContext) -> str:
            result = run(agent)
            if ctx.attempt == 1:
                raise Release("again")
            return result.final_output

        step = JournaledStep()
        await step.attempt(work)
        assert result_of(await step.attempt(work)) == "done"
        assert len(model.calls) == 2
        assert len(loops) == 1
        assert asyncio.get_running_loop() not in loops

    asyncio.run(play())
