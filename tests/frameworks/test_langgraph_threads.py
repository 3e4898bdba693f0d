"""Nodes of graphs that run in threads, side by side: their calls within a step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy, Send

from stepwell_client import JournalError, TaskContext, current_step
from stepwell_client.langgraph import StepwellSaver, node, run
from tests.frameworks.graphs import KEPT, Ran, State
from tests.support.journal import JournaledStep, result_of

TASKS, TURNS = 100, (1, 2, 3, 4)


class Number(TypedDict):
    number: int


@pytest.fixture
def restless() -> Iterator[None]:
    """Have threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless")
async def test_nodes_side_by_side_in_threads_each_make_their_calls_once() -> None:
    ran = Ran()

    @node
    def one(state: Number) -> State:
        step = current_step()
        assert step is not None
        name = str(state["number"])
        return {"seen": [step.call_sync("look", ran, f"{name}.{turn}") for turn in TURNS]}

    def fan(_: State) -> list[Send]:
        return [Send("one", {"number": number}) for number in range(TASKS)]

    builder = StateGraph(State)
    builder.add_node("one", one)
    builder.add_conditional_edges(START, fan, ["one"])
    graph = builder.compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        return await run(graph, {"seen": []})

    step = JournaledStep()
    expected = [f"{number}.{turn}" for number in range(TASKS) for turn in TURNS]
    assert result_of(await step.attempt(work)) == {"seen": expected}
    assert sorted(ran.names) == sorted(expected)
    assert len([one for one in step.kept(KEPT) if one.name == "look"]) == len(expected)


async def test_a_node_in_a_thread_that_its_graph_tries_again_finds_its_calls() -> None:
    ran = Ran()
    broken = [True]

    @node
    def a(state: State) -> State:
        step = current_step()
        assert step is not None
        seen = [step.call_sync("look", ran, "look", key=key) for key in ("mine", None, None)]
        with pytest.raises(JournalError, match="used before"):
            step.call_sync("look", ran, "look", key="mine")
        if broken:
            broken.pop()
            raise ConnectionError("the line was cut")
        return {"seen": seen}

    builder = StateGraph(State)
    builder.add_node("a", a, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        return await run(graph, {"seen": []})

    assert result_of(await JournaledStep().attempt(work)) == {"seen": ["look"] * 3}
    assert ran.names == ["look"] * 3
