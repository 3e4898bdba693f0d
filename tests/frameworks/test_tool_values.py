"""Values that tools return: a model reads the same in each attempt at a step, and outside of one."""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import agents
import pydantic
import pydantic_ai
import pytest
from agents import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from pydantic_ai import BinaryContent, ImageUrl, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

from stepwell_client import TaskContext
from stepwell_frameworks.openai_agents import StepwellRunner
from stepwell_frameworks.pydantic_ai import StepwellDurability
from tests.frameworks.scripted import Script, tool_call
from tests.frameworks.scripted_openai import scripted
from tests.support.journal import Crash, JournaledStep, result_of


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Book:
    title: str
    bought: datetime.date


class Shelf(pydantic.BaseModel):
    name: str
    place: int = pydantic.Field(alias="at")


VALUES: dict[str, Callable[[], Any]] = {
    "text": lambda: "two bees",
    "nothing": lambda: None,
    "number": lambda: 1.0,
    "not a number": lambda: float("nan"),
    "tuple": lambda: (1, "a"),
    "bytes": lambda: b"\x89PNG\xff",
    "bytes of text": lambda: b"two bees",
    "bytes within": lambda: {"data": b"\xff"},
    "time": lambda: datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "date": lambda: datetime.date(2026, 1, 2),
    "span": lambda: datetime.timedelta(minutes=90),
    "decimal": lambda: Decimal("1.50"),
    "set": lambda: {"two", "bees", "and", "a", "wasp"},
    "numbers": lambda: {1: "a"},
    "enum": lambda: Colour.RED,
    "id": lambda: uuid.UUID(int=7),
    "dataclass": lambda: Book("Bees", datetime.date(2026, 1, 2)),
    "model": lambda: Shelf(name="a", at=3),
    "models": lambda: [Shelf(name="a", at=3)],
    "numbers within": lambda: [float("inf"), 1.0, {"a": (1,)}],
}
THING = object()
OPENAI = {
    **VALUES,
    "picture": lambda: ToolOutputImage(image_url="data:image/png;base64,AA=="),
    "list of outputs": lambda: [ToolOutputText(text="a"), ToolOutputImage(image_url="data:x,")],
    "file": lambda: ToolOutputFileContent(file_data="AA==", filename="a.bin"),
    "output as a dict": lambda: {"type": "text", "text": "a"},
    "path": lambda: PurePosixPath("/a"),
    "exception": lambda: ValueError("odd"),
    "object": lambda: THING,
}
PYDANTIC_AI = {
    **VALUES,
    "picture": lambda: BinaryContent(b"\x89PNG\xff", media_type="image/png"),
    "list of contents": lambda: ["a", BinaryContent(b"\xff", media_type="image/png")],
    "url": lambda: ImageUrl("https://example.com/a.png"),
    "tool return": lambda: ToolReturn(
        "seen", content=["look", BinaryContent(b"\xff", media_type="image/png")]
    ),
    "bytes in a list": lambda: [b"\xff", "a"],
}


@pytest.mark.parametrize("name", OPENAI)
async def test_openai_model_reads_the_same_in_each_attempt(name: str) -> None:
    def agent_of() -> Any:
        tool = agents.function_tool(OPENAI[name], name_override="look")
        return agents.Agent(
            name="reader", model=scripted([("look", "c1", {})], "done"), tools=[tool]
        )

    agent = agent_of()
    seen: list[Any] = []

    async def work(ctx: TaskContext) -> str:
        seen.append((await StepwellRunner.run(agent, "go")).to_input_list()[2])
        if ctx.attempt == 1:
            raise Crash
        return "done"

    expected = (await agents.Runner.run(agent_of(), "go")).to_input_list()[2]
    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert seen[1] == seen[0] == agent.model.calls[-1].input[-1]
    assert seen[0] == expected


def read(messages: list[ModelMessage]) -> list[Any]:
    """Return what a model's adapter sends of the tools' results."""
    found: list[Any] = []
    for one in messages:
        for part in one.parts if isinstance(one, ModelRequest) else []:
            if isinstance(part, ToolReturnPart):
                files = [(one.kind, one.identifier) for one in part.files]
                found.append((part.outcome, part.model_response_str(), files))
            elif isinstance(part, UserPromptPart):
                found.extend(getattr(one, "identifier", one) for one in part.content)
    return found


@pytest.mark.parametrize("name", PYDANTIC_AI)
async def test_pydantic_ai_model_reads_the_same_in_each_attempt(name: str) -> None:
    def agent_of(**options: Any) -> pydantic_ai.Agent[None, str]:
        script = Script([tool_call("look")], "done")
        agent = pydantic_ai.Agent(script.model(), name="reader", **options)
        agent.tool_plain(name="look")(PYDANTIC_AI[name])
        return agent

    agent = agent_of(capabilities=[StepwellDurability()])
    seen: list[Any] = []

    async def work(ctx: TaskContext) -> str:
        seen.append(read((await agent.run("go")).all_messages()))
        if ctx.attempt == 1:
            raise Crash
        return "done"

    expected = read((await agent_of().run("go")).all_messages())
    step = JournaledStep()
    assert await step.after_crash(work) == "done"
    assert seen == [expected, expected]


def picture_of_openai(sizes: list[int]) -> Any:
    def scan() -> ToolOutputImage:
        return ToolOutputImage(image_url="data:image/png;base64," + "A" * sizes.pop(0))

    tool = agents.function_tool(scan)
    agent = agents.Agent(name="reader", model=scripted([("scan", "c1", {})], "done"), tools=[tool])
    return lambda: StepwellRunner.run(agent, "go")


def picture_of_pydantic_ai(sizes: list[int]) -> Any:
    script = Script([tool_call("scan")], "done")
    agent = pydantic_ai.Agent(script.model(), name="reader", capabilities=[StepwellDurability()])

    @agent.tool_plain
    def scan() -> BinaryContent:
        return BinaryContent(b"A" * sizes.pop(0), media_type="image/png")

    return lambda: agent.run("go")


@pytest.mark.parametrize("make", [picture_of_openai, picture_of_pydantic_ai])
async def test_a_picture_that_is_too_large_is_made_once_until_the_tool_is_mended(
    make: Callable[[list[int]], Any],
) -> None:
    sizes = [1_500_000, 500_000]
    run = make(sizes)

    async def work(ctx: TaskContext) -> str:
        await run()
        return "done"

    step = JournaledStep()
    for _ in range(2):
        failure = (await step.attempt(work)).failed.failure
        assert (failure.kind, failure.retryable) == ("RESULT_TOO_LARGE", False)
        assert "the call reader.tool.scan/" in failure.message
        assert " bytes; 1,048,576 is the most" in failure.message
        assert len(sizes) == 1
    step.tries_from = 3  # As after a `resume`.
    assert result_of(await step.attempt(work)) == "done"
    assert not sizes
