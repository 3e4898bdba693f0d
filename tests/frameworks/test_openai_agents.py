"""Agents of the OpenAI Agents SDK within a step: what is kept, and what is made again."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import sys
from typing import Any

import pytest
from agents import (
    Agent,
    ModelRetrySettings,
    ModelSettings,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    SQLiteSession,
    UserError,
    WebSearchTool,
    handoff,
)
from agents.models.interface import Model, ModelProvider
from agents.testing import ModelStep, ScriptedModel
from pydantic import BaseModel

from stepwell_client import TaskContext, current_step
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner, durable
from tests.frameworks.scripted_openai import Finder, names, scripted, step_of, twice
from tests.support.journal import Crash, JournaledStep, crashed

END = types_pb2.JOURNAL_MARK_END
TRY = types_pb2.JOURNAL_MARK_TRY


async def test_answers_of_models_and_tools_come_from_the_journal() -> None:
    model = scripted([("find", "c1", {"what": "bees"})], "two bees")
    finder = Finder()
    work = twice(Agent(name="reader", model=model, tools=[finder.tool]))

    step = JournaledStep()
    assert await step.after_crash(work) == "two bees"
    assert len(model.calls) == 2
    assert finder.found == ["bees"]
    assert names(step) == ["reader.model", "reader.tool.find", "reader.model"]


async def test_without_a_step_nothing_changes() -> None:
    model = scripted(
        [("find", "c1", {"what": "bees"})], "done", [("find", "c2", {"what": "ants"})], "done"
    )
    finder = Finder()
    agent = Agent(name="reader", model=model, tools=[finder.tool])

    assert current_step() is None
    assert (await StepwellRunner.run(agent, "go")).last_agent is agent
    assert (await Runner.run(durable(agent), "go")).final_output == "done"
    assert finder.found == ["bees", "ants"]


async def test_a_durable_agent_can_be_copied() -> None:
    agent = copy.deepcopy(durable(Agent(name="reader", model=scripted("done"))))
    assert (await Runner.run(agent, "go")).final_output == "done"


async def test_usage_is_kept_with_the_answer_and_counted_once() -> None:
    agent = Agent(name="reader", model=scripted("done"))

    async def work(ctx: TaskContext) -> None:
        await StepwellRunner.run(agent, "go")

    step = JournaledStep()
    outcome = await step.attempt(work)
    (entry,) = step.kept(END)
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (10, 2)
    assert not outcome.HasField("usage")


class Models(ModelProvider):
    """A provider of scripted models, by name."""

    def __init__(self, **models: Model) -> None:
        self.models = models

    def get_model(self, model_name: str | None) -> Model:
        assert model_name is not None
        return self.models[model_name]


@pytest.mark.parametrize("named", ["by the agent", "by the run"])
async def test_requests_of_a_model_that_is_named_are_kept(named: str) -> None:
    model = scripted("done")
    agent = Agent(name="reader", model="small" if named == "by the agent" else "large")
    config = RunConfig(
        model=None if named == "by the agent" else "small", model_provider=Models(small=model)
    )
    work = twice(agent, run_config=config)

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert len(model.calls) == 1
    assert names(step) == ["reader.model"]


async def test_requests_of_a_runs_own_model_are_kept() -> None:
    model, unused = scripted("done"), scripted()
    work = twice(Agent(name="reader", model=unused), run_config={"model": model})

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert len(model.calls) == 1


async def test_a_changed_instruction_is_another_request() -> None:
    model = scripted("first", "second")

    async def work(ctx: TaskContext) -> str:
        agent = Agent(name="reader", model=model, instructions=f"Attempt {ctx.attempt}.")
        result = await StepwellRunner.run(agent, "go")
        if ctx.attempt == 1:
            raise Crash
        return result.final_output

    step = JournaledStep()
    assert await step.after_crash(work) == "second"


async def test_a_filter_of_the_models_input_is_used() -> None:
    model = scripted("done")

    async def shout(data: Any) -> Any:
        data.model_data.instructions = "SHOUT"
        return data.model_data

    work = twice(
        Agent(name="reader", model=model), run_config=RunConfig(call_model_input_filter=shout)
    )
    await crashed(JournaledStep(), work)
    assert model.calls[0].system_instructions == "SHOUT"


async def test_branches_find_their_answers_in_any_order() -> None:
    asked: list[str] = []

    def answer(call: Any) -> Any:
        prompt = call.input[0]["content"]
        asked.append(prompt)
        return step_of(prompt.upper())

    agent = Agent(name="reader", model=ScriptedModel([ModelStep.respond(answer)] * 3))

    async def work(ctx: TaskContext) -> list[str]:
        given = ["a", "b", "c"] if ctx.attempt == 1 else ["c", "a", "b"]
        results = await asyncio.gather(*(StepwellRunner.run(agent, one) for one in given))
        if ctx.attempt == 1:
            raise Crash
        return [one.final_output for one in results]

    step = JournaledStep()
    assert await step.after_crash(work) == ["C", "A", "B"]
    assert sorted(asked) == ["a", "b", "c"]


async def test_calls_of_agents_before_and_after_handoffs_are_kept() -> None:
    model = scripted(
        [("transfer_to_writer", "h1", {})],
        [("find", "c1", {"what": "bees"})],
        [("back", "h2", {})],
        "done",
    )
    finder = Finder()
    reader = Agent(name="reader", model=model)
    writer = Agent(
        name="writer",
        model=model,
        tools=[finder.tool],
        handoffs=[handoff(reader, tool_name_override="back")],
    )
    reader.handoffs.append(writer)

    async def work(ctx: TaskContext) -> str:
        result = await StepwellRunner.run(reader, "go")
        if ctx.attempt == 1:
            raise Crash
        return result.last_agent.name

    step = JournaledStep()
    assert await step.after_crash(work) == "reader"
    assert len(model.calls) == 4
    assert finder.found == ["bees"]
    assert names(step) == [
        "reader.model",
        "writer.model",
        "writer.tool.find",
        "writer.model",
        "reader.model",
    ]


async def test_an_agent_that_is_a_tool_has_its_calls_within_the_tools() -> None:
    finder = Finder()
    inner_model = scripted([("find", "c1", {"what": "bees"})], "inner")
    inner = Agent(name="inner", model=inner_model, tools=[finder.tool])
    outer_model = scripted([("ask_inner", "c1", {"input": "go"})], "outer")
    crash = [True]

    async def lost_once(result: RunResult | RunResultStreaming) -> str:
        if crash:
            crash.pop()
            raise Crash
        return str(result.final_output)

    tool = durable(inner).as_tool("ask_inner", "Asks.", custom_output_extractor=lost_once)
    outer = Agent(name="outer", model=outer_model, tools=[tool])

    async def work(ctx: TaskContext) -> str:
        return (await StepwellRunner.run(outer, "go")).final_output

    step = JournaledStep()
    assert await step.after_crash(work) == "outer"
    assert len(inner_model.calls) == 2
    assert len(outer_model.calls) == 2
    assert finder.found == ["bees"]
    assert names(step)[1:4] == ["inner.model", "inner.tool.find", "inner.model"]
    assert step.kept(END)[1].key.startswith("outer.tool.ask_inner/")


async def test_an_agent_that_is_a_tool_and_would_not_be_kept_is_refused() -> None:
    inner = Agent(name="inner", model=scripted())
    outer = Agent(name="outer", model=scripted(), tools=[inner.as_tool("ask_inner", "Asks.")])
    with pytest.raises(UserError, match=r"durable\(…\)\.as_tool"):
        durable(outer)


class Book(BaseModel):
    title: str


async def test_an_output_type_and_hosted_tools_are_part_of_what_is_asked() -> None:
    model = scripted('{"title": "Bees"}', '{"title": "Ants"}', '{"title": "Wasps"}')

    async def work(ctx: TaskContext) -> list[str]:
        plain = Agent(name="reader", model=model, output_type=Book)
        results = [
            await StepwellRunner.run(one, "go")
            for one in (plain, plain.clone(tools=[WebSearchTool()]), plain.clone(output_type=None))
        ]
        if ctx.attempt == 1:
            raise Crash
        return [str(one.final_output) for one in results]

    step = JournaledStep()
    assert await step.after_crash(work) == [
        "title='Bees'",
        "title='Ants'",
        '{"title": "Wasps"}',
    ]
    assert len({one.key for one in step.kept(END)}) == 3
    assert all(one.key.endswith("#1") for one in step.kept(END))


REQUEST = """
from agents import Agent, ModelSettings, WebSearchTool, function_tool
from agents.models.interface import ModelTracing
from stepwell_frameworks.openai_agents.step_model import _asked

settings = ModelSettings(metadata={"a": "b"}, extra_args={"stop": {"x", "y", "z"}, "prompt_cache_key": "KEY"})
tools = [WebSearchTool(), function_tool(lambda what: what, name_override="find")]
print(_asked("whole", ("Be kind.", [{"role": "user", "content": "go"}], settings, tools, None, []),
    {"tracing": ModelTracing.DISABLED, "previous_response_id": None, "conversation_id": None, "prompt": None}))
"""


def test_what_a_model_is_asked_has_the_same_digest_in_each_process() -> None:
    digests: set[str] = set()
    for seed in "12":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        script = REQUEST.replace("KEY", seed)
        made = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
        )
        digests.add(made.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("seconds", [None, 0.02], ids=["failed", "took too long"])
async def test_a_request_that_the_sdk_makes_again_is_one_call(seconds: float | None) -> None:
    async def answer(call: Any) -> Any:
        if len(model.calls) == 1:
            if seconds is None:
                raise ConnectionError("the line was cut")
            await asyncio.Event().wait()
        return step_of("done")

    model = ScriptedModel([ModelStep.respond(answer)] * 2)
    retry = ModelRetrySettings(max_retries=2, policy=lambda _: True)
    settings = ModelSettings(retry=retry, timeout=seconds)
    work = twice(Agent(name="reader", model=model, model_settings=settings))

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert len(model.calls) == 2
    (kept,) = step.kept(END)
    assert kept.key.endswith("#1")
    assert {one.key for one in step.kept(TRY)} <= {kept.key}


async def test_a_request_waits_where_the_budget_is_spent() -> None:
    model = scripted("done")
    outcome = await JournaledStep(budget_spent=True).attempt(
        twice(
            Agent(name="reader", model=model, instructions="Be kind."),
            session=SQLiteSession("chat"),
        )
    )
    (wait,) = outcome.suspended.waits
    assert wait.HasField("budget")
    assert not model.calls
