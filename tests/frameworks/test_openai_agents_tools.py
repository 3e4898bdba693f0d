"""Tools of agents of the OpenAI Agents SDK within a step: what is kept of them, and what fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import (
    Agent,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
)
from pydantic import BaseModel

from stepwell_client import NonRetryable, Retry, TaskContext, decode
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner, as_call, not_kept
from tests.frameworks.scripted_openai import Finder, names, scripted, twice
from tests.support.journal import JournaledStep, crashed, result_of

END = types_pb2.JOURNAL_MARK_END
TRY = types_pb2.JOURNAL_MARK_TRY


class Book(BaseModel):
    title: str


async def test_what_the_sdk_answers_for_a_failed_tool_is_kept_as_its_result() -> None:
    model = scripted([("read", "c1", {})], "done")
    reads: list[int] = []

    @function_tool
    def read() -> str:
        reads.append(1)
        raise ConnectionError("the line was cut")

    work = twice(Agent(name="reader", model=model, tools=[read]))
    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert len(reads) == 1
    assert not step.kept(TRY)
    assert "An error occurred" in model.calls[1].input[-1]["output"]


async def test_a_tool_without_an_answer_for_failures_fails_the_attempt_and_runs_again() -> None:
    model = scripted([("read", "c1", {})], "done")
    reads: list[int] = []

    @function_tool(failure_error_function=None)
    def read() -> str:
        reads.append(1)
        if len(reads) == 1:
            raise ConnectionError("the line was cut")
        return "seen"

    async def work(ctx: TaskContext) -> str:
        agent = Agent(name="reader", model=model, tools=[read])
        return (await StepwellRunner.run(agent, "go")).final_output

    step = JournaledStep()
    assert "the line was cut" in (await step.attempt(work)).failed.failure.message
    assert result_of(await step.attempt(work)) == "done"
    assert len(reads) == 2
    assert len(model.calls) == 2
    assert len(step.kept(TRY)) == 1


async def test_what_a_tool_tells_the_step_is_what_the_run_raises() -> None:
    model = scripted([("read", "c1", {})], "done")

    @function_tool(failure_error_function=None)
    def read() -> str:
        raise NonRetryable("there is no such shelf", kind="NO_SHELF")

    async def work(ctx: TaskContext) -> None:
        await StepwellRunner.run(Agent(name="reader", model=model, tools=[read]), "go")

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("NO_SHELF", False)


async def test_a_tool_that_is_not_kept_runs_in_each_attempt() -> None:
    model = scripted([("find", "c1", {"what": "bees"})], "done")
    finder = Finder()
    work = twice(Agent(name="reader", model=model, tools=[not_kept(finder.tool)]))

    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert finder.found == ["bees", "bees"]
    assert names(step) == ["reader.model", "reader.model"]


class Ghost:
    def __str__(self) -> str:
        return "a ghost"


@pytest.mark.parametrize(
    ("output", "shown", "kept"),
    [
        (
            Book(title="Bees"),
            "title='Bees'",
            {"stepwell.json": {"title": "Bees"}, "stepwell.text": "title='Bees'"},
        ),
        (Ghost(), "a ghost", "a ghost"),
        (
            [ToolOutputText(text="look"), ToolOutputImage(image_url="https://a.example/b.png")],
            [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "https://a.example/b.png"},
            ],
            [
                {"type": "text", "text": "look"},
                {
                    "type": "image",
                    "image_url": "https://a.example/b.png",
                    "file_id": None,
                    "detail": None,
                },
            ],
        ),
    ],
    ids=["a model", "no JSON", "text and image"],
)
async def test_what_a_tool_returns_is_read_by_the_model_and_kept(
    output: Any, shown: Any, kept: Any
) -> None:
    @function_tool
    def read() -> Any:
        return output

    model = scripted([("read", "c1", {})], "done")
    step = JournaledStep()
    await crashed(step, twice(Agent(name="reader", model=model, tools=[read])))
    assert model.calls[1].input[-1]["output"] == shown
    assert decode(step.kept(END)[1].value) == kept


async def test_the_time_of_a_tool_is_counted_by_the_sdk_and_kept_as_its_answer() -> None:
    @function_tool(timeout=0.01)
    async def read() -> str:
        await asyncio.Event().wait()
        return "seen"

    model = scripted([("read", "c1", {})], "done")
    work = twice(Agent(name="reader", model=model, tools=[read]))
    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert "timed out" in decode(step.kept(END)[1].value)
    assert len(model.calls) == 2


async def test_a_tools_own_tries_are_tries_of_its_call() -> None:
    reads: list[int] = []

    @function_tool(failure_error_function=None)
    def read() -> str:
        reads.append(1)
        if len(reads) < 3:
            raise ConnectionError("the line was cut")
        return "seen"

    tool = as_call(read, retry=Retry(max_attempts=3))
    model = scripted([("read", "c1", {})], "done")
    step = JournaledStep()
    await crashed(step, twice(Agent(name="reader", model=model, tools=[tool])))
    assert len(step.kept(TRY)) == 2
    assert names(step) == ["reader.model", "reader.tool.read", "reader.model"]
