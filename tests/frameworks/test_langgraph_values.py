"""Values in a graph's state: they come back as they are, or are refused with the name of their type."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Generic, TypedDict, TypeVar

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, Field

from stepwell_client import TaskContext
from stepwell_frameworks.langgraph import StepwellSaver, journaled, run
from tests.frameworks.graphs import Ran
from tests.frameworks.test_langgraph_calls import Chat, calling, contents, tools_graph
from tests.support.journal import Crash, JournaledStep, crashed

T = TypeVar("T")


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    class Status(Enum):
        OPEN = "open"

    colour: Colour = Colour.RED
    status: Status = Status.OPEN
    other: Any = None
    score: float = float("nan")


class Box(BaseModel, Generic[T]):
    item: T


class Mail(BaseModel):
    sender: str | None = Field(default=None, alias="from")


@dataclasses.dataclass
class Counted:
    number: int
    double: int = dataclasses.field(init=False, default=0)


Boxed = Box[int]
GOOD = [Order(), Colour.RED, Boxed(item=1), {("a", 1): [Order()]}, Mail()]


def boxed(item: Any) -> Any:
    """Return a generic model of a class that its module doesn't have."""
    return Box[type(item)](item=item)


BAD = [
    (Order(other=Order.Status.OPEN), "Order"),
    ([{"deep": Order.Status.OPEN}], "Order.Status"),
    ({Order.Status.OPEN: 1}, "Order.Status"),
    ({Order.Status.OPEN}, "Order.Status"),
    ({Colour.RED: 1}, "Colour"),
    (boxed(1.5), "Box[float]"),
    (Mail.model_validate({"from": "a"}), "Mail"),
    (Counted(1), "Counted"),
]


class Held(TypedDict, total=False):
    value: Any


def holding(value: Any, seen: list[Any]) -> Any:
    ran = Ran("check")

    async def make(state: Held) -> Held:
        return {"value": value}

    async def check(state: Held) -> Held:
        seen.append(state.get("value"))
        ran("check")
        return {}

    builder = StateGraph(Held)
    builder.add_sequence([make, check])
    builder.add_edge(START, "make")
    return builder.compile(checkpointer=StepwellSaver())


@pytest.mark.parametrize("value", GOOD, ids=repr)
async def test_value_of_a_state_comes_back_equal(value: Any) -> None:
    seen: list[Any] = []
    graph = holding(value, seen)

    async def work(ctx: TaskContext) -> None:
        await run(graph, {})

    step = JournaledStep()
    await crashed(step, work)
    await step.attempt(work)
    assert repr(seen) == repr([value, value])
    assert type(seen[1]) is type(value)


@pytest.mark.parametrize(("value", "name"), BAD, ids=repr)
async def test_value_that_would_come_back_otherwise_is_refused_by_its_type(
    value: Any, name: str
) -> None:
    graph = holding(value, [])
    made = journaled(RunnableLambda(lambda _: value), "made")

    async def keep_in_state(ctx: TaskContext) -> None:
        await run(graph, {})

    async def keep_in_call(ctx: TaskContext) -> None:
        await made.ainvoke("it")

    for work in (keep_in_state, keep_in_call):
        failure = (await JournaledStep().attempt(work)).failed.failure
        assert (failure.kind, failure.retryable) == ("INVALID_RESULT", False)
        assert f".{name} can't be kept" in failure.message


async def test_state_that_is_too_large_is_refused_by_its_channel() -> None:
    graph = holding("x" * 1_500_000, [])

    async def work(ctx: TaskContext) -> None:
        await run(graph, {})

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("RESULT_TOO_LARGE", False)
    assert "'value' has 1,500,0" in failure.message
    assert "1,048,576 is the most" in failure.message


async def test_model_reads_the_same_of_any_tool_result_as_without_a_step() -> None:
    results: dict[str, Any] = {
        "bytes": b"\x89PNG\xff",
        "nested": {"data": b"\xff"},
        "datetime": datetime(2026, 1, 1, tzinfo=UTC),
        "decimal": Decimal("1.5"),
        "set": {1},
        "blocks": [{"type": "text", "text": "a"}],
    }

    def made(name: str) -> Any:
        @tool(name)
        async def give(what: str) -> Any:
            """Give."""
            return results[what]

        return give

    tools = [made(name) for name in results]
    plain = StateGraph(Chat)
    plain.add_node("tools", ToolNode(tools))
    plain.add_edge(START, "tools")
    plain.add_edge("tools", END)
    output = await plain.compile().ainvoke(calling(*results))
    graph = tools_graph(*tools)
    seen: list[Any] = []

    async def work(ctx: TaskContext) -> None:
        seen.append(contents((await run(graph, calling(*results)))["messages"]))
        if ctx.attempt == 1:
            raise Crash

    step = JournaledStep()
    await crashed(step, work)
    assert (await step.attempt(work)).HasField("completed")
    assert seen == [contents(output["messages"])] * 2
    assert len(seen[0]) == len(results)
