"""Graphs whose nodes run in threads, side by side: where they go on, and what their nodes call."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy, Send, interrupt

from stepwell_client import JournalError, TaskContext, encode
from stepwell_frameworks.langgraph import StepwellSaver, node, run, run_sync
from tests.frameworks.graphs import KEPT, Ran, State, going
from tests.support.journal import JournaledStep, result_of, this_step

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
        step = this_step()
        name = str(state["number"])
        return {"seen": [step.call_sync("look", ran, f"{name}.{turn}") for turn in TURNS]}

    def fan(_: State) -> list[Send]:
        return [Send("one", {"number": number}) for number in range(TASKS)]

    builder = StateGraph(State)
    builder.add_node("one", one)
    builder.add_conditional_edges(START, fan, ["one"])
    graph = builder.compile(checkpointer=StepwellSaver())

    work = going(graph)

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
        step = this_step()
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

    work = going(graph)

    assert result_of(await JournaledStep().attempt(work)) == {"seen": ["look"] * 3}
    assert ran.names == ["look"] * 3


def side_by_side(*nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    for number, one in enumerate(nodes):
        builder.add_node(f"n{number}", one)
        builder.add_edge(START, f"n{number}")
    return builder


def reading(ran: Ran, name: str) -> Any:
    """Return a node that makes a call, and notes it after that."""

    @node
    def read(state: State) -> State:
        step = this_step()
        seen = step.call_sync("read", ran, name)
        ran(f"after {name}")
        return {"seen": [seen]}

    return read


async def test_a_step_in_a_thread_goes_on_where_one_of_two_nodes_side_by_side_crashed() -> None:
    ran = Ran("after b")
    graph = side_by_side(reading(ran, "a"), reading(ran, "b")).compile(checkpointer=StepwellSaver())

    def work(ctx: TaskContext) -> Any:
        return run_sync(graph, {"seen": ["input"]})

    step = JournaledStep()
    assert await step.after_crash(work) == {"seen": ["input", "a", "b"]}
    assert (ran.names.count("a"), ran.names.count("b")) == (1, 1)


@pytest.mark.parametrize("in_thread", [False, True], ids=["on_the_loop", "in_a_thread"])
async def test_a_graph_that_a_node_in_a_thread_invokes_may_have_nodes_side_by_side(
    in_thread: bool,
) -> None:
    ran = Ran("after")
    inner = side_by_side(reading(ran, "a"), reading(ran, "b")).compile()

    @node
    def outer(state: State) -> State:
        seen = inner.invoke({"seen": []})["seen"]
        ran("after")
        return {"seen": seen}

    graph = side_by_side(outer).compile(checkpointer=StepwellSaver())

    async def work_on_the_loop(ctx: TaskContext) -> Any:
        return await run(graph, {"seen": []})

    def work_in_a_thread(ctx: TaskContext) -> Any:
        return run_sync(graph, {"seen": []})

    work = work_in_a_thread if in_thread else work_on_the_loop
    step = JournaledStep()
    assert await step.after_crash(work) == {"seen": ["a", "b"]}
    assert (ran.names.count("a"), ran.names.count("b")) == (1, 1)


async def test_interrupts_of_a_step_in_a_thread_are_asked_together() -> None:
    @node
    def which(state: State) -> State:
        return {"seen": [interrupt("Which?")]}

    @node
    def sure(state: State) -> State:
        return {"seen": [interrupt("Sure?")]}

    graph = side_by_side(which, sure).compile(checkpointer=StepwellSaver())

    def work(ctx: TaskContext) -> Any:
        return run_sync(graph, {"seen": []})

    step = JournaledStep()
    waits = (await step.attempt(work)).suspended.waits
    assert sorted(one.ask.prompt for one in waits) == ["Sure?", "Which?"]
    for wait in waits:
        step.keep(wait.call, KEPT, value=encode(wait.ask.prompt))
    assert result_of(await step.attempt(work)) == {"seen": ["Which?", "Sure?"]}


def test_run_sync_runs_a_graph_as_it_is_outside_of_a_step() -> None:
    ran = Ran()

    @node
    def a(state: State) -> State:
        return {"seen": [ran("a")]}

    assert run_sync(side_by_side(a).compile(), {"seen": []}) == {"seen": ["a"]}


async def test_run_sync_on_an_event_loop_is_refused() -> None:
    with pytest.raises(JournalError, match=r"await run\("):
        run_sync(side_by_side(lambda state: state).compile(), {"seen": []})
