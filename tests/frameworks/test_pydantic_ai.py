"""Agents of pydantic-ai within a step: what is kept, what is made again, and what becomes a question."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ModelRetry, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import FunctionToolset

from stepwell_client import (
    Release,
    Retry,
    TaskContext,
    current_step,
)
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.pydantic_ai import StepwellDurability
from tests.frameworks.scripted import Script, going, tool_call
from tests.support.journal import Crash, JournaledStep, result_of

END = types_pb2.JOURNAL_MARK_END
TRY = types_pb2.JOURNAL_MARK_TRY


def names(step: JournaledStep) -> list[str]:
    """Return the names of the calls in the journal."""
    return [one.name for one in step.kept(END)]


async def test_answers_of_models_and_tools_come_from_the_journal() -> None:
    script = Script([tool_call("find", what="bees")], "two bees")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])
    found: list[str] = []

    @agent.tool_plain
    def find(what: str) -> str:
        found.append(what)
        return f"two {what}"

    work = going(agent, lost=True)

    step = JournaledStep()
    assert await step.after_crash(work) == "two bees"
    assert script.requests == 2
    assert found == ["bees"]
    assert names(step) == ["reader.model", "reader.tool.find", "reader.model"]


async def test_without_a_step_nothing_changes() -> None:
    script = Script([tool_call("find")], "done")
    agent = Agent(script.model(), capabilities=[StepwellDurability(stream=True)])

    @agent.tool
    async def find(ctx: RunContext[object]) -> str:
        ctx.enqueue("more")
        return "seen"

    assert current_step() is None
    await agent.run("find")
    await agent.run("find")
    assert script.requests > 2


async def test_each_answer_is_kept_though_the_next_request_fails() -> None:
    agent = Agent(TestModel(), name="tested", capabilities=[StepwellDurability()])
    broken = [True]

    @agent.tool_plain
    def first() -> str:
        return "one"

    @agent.tool_plain
    def second() -> str:
        if broken:
            broken.pop()
            raise ConnectionError("the line was cut")
        return "two"

    work = going(agent)

    step = JournaledStep()
    outcome = await step.attempt(work)
    assert outcome.failed.failure.kind == "ConnectionError"
    assert result_of(await step.attempt(work)) == '{"first":"one","second":"two"}'
    assert sorted(names(step)) == [
        "tested.model",
        "tested.model",
        "tested.tool.first",
        "tested.tool.second",
    ]


async def test_usage_is_kept_with_the_answer_and_counted_once() -> None:
    script = Script("done")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])

    async def work(ctx: TaskContext) -> None:
        await agent.run("go")

    step = JournaledStep()
    outcome = await step.attempt(work)
    (entry,) = step.kept(END)
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (10, 2)
    assert entry.usage.model == "script"
    assert not outcome.HasField("usage")


async def test_a_request_after_a_refused_output_is_found_again() -> None:
    script = Script("wrong", "right")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])

    @agent.output_validator
    def check(output: str) -> str:
        if output == "wrong":
            raise ModelRetry("that is wrong")
        return output

    work = going(agent, lost=True)

    step = JournaledStep()
    assert await step.after_crash(work) == "right"
    assert script.requests == 2


async def test_branches_find_their_answers_in_any_order() -> None:
    asked: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        (part,) = messages[0].parts
        assert isinstance(part, UserPromptPart)
        prompt = str(part.content)
        asked.append(prompt)
        return ModelResponse(parts=[TextPart(prompt.upper())])

    agent = Agent(FunctionModel(answer), name="reader", capabilities=[StepwellDurability()])

    async def work(ctx: TaskContext) -> list[str]:
        names = ["a", "b", "c"] if ctx.attempt == 1 else ["c", "a", "b"]
        results = await asyncio.gather(*(agent.run(name) for name in names))
        if ctx.attempt == 1:
            raise Crash
        return [one.output for one in results]

    step = JournaledStep()
    assert await step.after_crash(work) == ["C", "A", "B"]
    assert sorted(asked) == ["a", "b", "c"]


async def test_what_a_tool_asks_of_the_model_is_kept_as_its_result() -> None:
    script = Script([tool_call("find", what="x")], [tool_call("find", what="bees")], "done")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])
    found: list[str] = []

    @agent.tool_plain
    def find(what: str) -> str:
        found.append(what)
        if what == "x":
            raise ModelRetry("what is x?")
        return what

    work = going(agent, lost=True)

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert found == ["x", "bees"]
    assert script.requests == 3
    assert not step.kept(TRY)


async def test_a_tool_may_not_enqueue() -> None:
    script = Script([tool_call("find")], "done")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])

    @agent.tool
    async def find(ctx: RunContext[object]) -> str:
        with pytest.raises(UserError, match="enqueue"):
            ctx.enqueue("more")
        return "seen"

    work = going(agent)

    assert result_of(await JournaledStep().attempt(work)) == "done"


async def test_an_agent_within_a_tool_has_its_calls_within_the_tools() -> None:
    inner_script = Script("inner", "unused")
    inner = Agent(inner_script.model(), name="inner", capabilities=[StepwellDurability()])
    outer_script = Script([tool_call("ask_inner")], "outer")
    outer = Agent(outer_script.model(), name="outer", capabilities=[StepwellDurability()])
    crash = [True]

    @outer.tool_plain
    async def ask_inner() -> str:
        output = (await inner.run("go")).output
        if crash:
            crash.pop()
            raise Crash
        return output

    work = going(outer)

    step = JournaledStep()
    assert await step.after_crash(work) == "outer"
    assert inner_script.requests == 1
    assert outer_script.requests == 2
    assert step.kept(END)[1].key.startswith("outer.tool.ask_inner/")


def test_a_step_in_a_thread_runs_its_agent_there() -> None:
    async def play() -> None:
        script = Script([tool_call("find")], "done")
        agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])
        loops: set[asyncio.AbstractEventLoop] = set()

        @agent.tool_plain
        async def find() -> str:
            loops.add(asyncio.get_running_loop())
            return "seen"

        def work(ctx: TaskContext) -> str:
            output = asyncio.run(agent.run("go")).output
            if ctx.attempt == 1:
                raise Release("again")
            return output

        step = JournaledStep()
        await step.attempt(work)
        assert result_of(await step.attempt(work)) == "done"
        assert script.requests == 2
        assert len(loops) == 1
        assert asyncio.get_running_loop() not in loops

    asyncio.run(play())


async def test_streamed_text_is_shown_while_it_comes_and_once() -> None:
    shown: list[int] = []
    step = JournaledStep()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for chunk in ("one ", "two ", "three"):
            shown.append(len([text for text, _, is_chunk in step.services.written if is_chunk]))
            yield chunk

    agent = Agent(
        FunctionModel(stream_function=stream), name="reader", capabilities=[StepwellDurability()]
    )

    async def work(ctx: TaskContext) -> str:
        async with agent.run_stream("go") as result:
            output = await result.get_output()
        if ctx.attempt == 1:
            raise Crash
        return output

    assert await step.after_crash(work) == "one two three"
    assert [text for text, _, chunk in step.services.written if chunk] == ["one ", "two ", "three"]
    assert shown[-1] >= 1
    assert names(step) == ["reader.model"]


async def test_with_stream_each_run_streams() -> None:
    step = JournaledStep()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "one "
        yield "two"

    durability = StepwellDurability(stream=True)
    agent = Agent(FunctionModel(stream_function=stream), capabilities=[durability])

    work = going(agent)

    assert result_of(await step.attempt(work)) == "one two"
    assert [text for text, _, chunk in step.services.written if chunk] == ["one ", "two"]
    assert names(step) == ["agent.model"]


async def test_a_tool_that_is_not_kept_runs_in_each_attempt() -> None:
    script = Script([tool_call("clock")], "done")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])
    asked: list[int] = []

    @agent.tool_plain(metadata={"stepwell": False})
    async def clock() -> str:
        asked.append(1)
        return "noon"

    work = going(agent, lost=True)

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert len(asked) == 2
    assert "reader.tool.clock" not in names(step)


async def test_a_request_is_tried_again_as_its_retry_says() -> None:
    tries: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("the line was cut")
        return ModelResponse(parts=[TextPart("done")])

    durability = StepwellDurability(retry=Retry(max_attempts=3))
    agent = Agent(FunctionModel(answer), name="reader", capabilities=[durability])

    work = going(agent)

    step = JournaledStep()
    assert result_of(await step.attempt(work)) == "done"
    assert len(step.kept(TRY)) == 2


async def test_a_tools_own_set_needs_an_id_and_is_kept() -> None:
    script = Script([tool_call("find")], "done")
    tools: FunctionToolset[object] = FunctionToolset(id="eyes")
    found: list[int] = []

    @tools.tool_plain
    def find() -> str:
        found.append(1)
        return "seen"

    agent = Agent(
        script.model(), name="reader", toolsets=[tools], capabilities=[StepwellDurability()]
    )

    work = going(agent, lost=True)

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert found == [1]
    with pytest.raises(UserError, match="id"):
        Agent(script.model(), toolsets=[FunctionToolset()], capabilities=[StepwellDurability()])


async def test_an_unknown_option_of_a_tool_fails_the_attempt() -> None:
    script = Script([tool_call("find")], "done")
    agent = Agent(script.model(), name="reader", capabilities=[StepwellDurability()])

    @agent.tool_plain(metadata={"stepwell": {"effects": 1}})
    async def find() -> str:
        return "seen"

    work = going(agent)

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert "effect, retry, reconcile" in failure.message
    assert (failure.kind, failure.retryable) == ("JournalError", False)


REQUEST = """
from pydantic_ai import ToolDefinition
from pydantic_ai.durable_exec import ModelRequestId
from pydantic_ai.models import ModelRequestParameters
from stepwell_frameworks.pydantic_ai.operations import StepBackend

names = {"find", "read", "count", "write", "mail"}
tools = [ToolDefinition(name=name) for name in sorted(names)]
request = ModelRequestParameters(function_tools=tools, revealed_tool_names=names)
print(StepBackend("reader", None)._identity(ModelRequestId(model_name="m"), "", (request, {"seen": names})))
"""


def test_what_a_model_is_asked_has_the_same_name_in_each_process() -> None:
    identities: set[str] = set()
    for seed in "123":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        made = subprocess.run(
            [sys.executable, "-c", REQUEST], env=env, capture_output=True, text=True, check=True
        )
        identities.add(made.stdout)
    assert len(identities) == 1
