"""Graphs of LangGraph within a step: where they go on, and which of their waits are questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from stepwell_client import JournalError, TaskContext, encode
from stepwell_frameworks.langgraph import (
    StepwellSaver,
    node,
    run,
)
from tests.frameworks.graphs import KEPT, Ran, State, chain, going
from tests.support.journal import Crash, JournaledStep, crashed, result_of, this_step


def added(seen: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*seen, *(one for write in writes for one in write)]


class Deltas(TypedDict):
    seen: Annotated[list[str], DeltaChannel(added, snapshot_frequency=3)]


async def test_a_graph_goes_on_at_its_node() -> None:
    ran = Ran("b")

    async def a(state: State) -> State:
        return {"seen": [ran("a")]}

    async def b(state: State) -> State:
        return {"seen": [ran("b")]}

    graph = chain(a, b).compile(checkpointer=StepwellSaver())

    work = going(graph, "input")

    step = JournaledStep()
    assert await step.after_crash(work) == {"seen": ["input", "a", "b"]}
    assert ran.names == ["a", "b", "b"]


async def test_a_graph_that_had_ended_is_not_run_again() -> None:
    ran = Ran()

    async def a(state: State) -> State:
        return {"seen": [ran("a")]}

    graph = chain(a).compile(checkpointer=StepwellSaver())

    work = going(graph, lost=True)

    step = JournaledStep()
    assert await step.after_crash(work) == {"seen": ["a"]}
    assert ran.names == ["a"]


async def test_interrupts_become_questions_and_their_answers_go_on() -> None:
    ran = Ran()

    @node
    async def a(state: State) -> State:
        step = this_step()
        await step.call("first", ran, "first")
        one = interrupt({"prompt": "Which?", "choices": ["x", "y"]})
        return {"seen": [one, interrupt("Sure?")]}

    @node
    async def b(state: State) -> State:
        return {"seen": [interrupt({"other": 1})]}

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("b", b)
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")
    graph = builder.compile(checkpointer=StepwellSaver())

    work = going(graph)

    step = JournaledStep()
    waits = {one.ask.prompt: one for one in (await step.attempt(work)).suspended.waits}
    assert sorted(waits) == ["Which?", '{"other": 1}']
    assert waits["Which?"].ask.choices == ["x", "y"]
    step.keep(waits["Which?"].call, KEPT, value=encode("x"))
    (left,) = (await step.attempt(work)).suspended.waits
    step.keep(left.call, KEPT, value=encode("other"))
    (left,) = (await step.attempt(work)).suspended.waits
    assert left.ask.prompt == "Sure?"
    step.keep(left.call, KEPT, value=encode("yes"))
    assert result_of(await step.attempt(work)) == {"seen": ["x", "yes", "other"]}
    assert ran.names == ["first"]


async def test_a_step_that_is_handed_back_in_a_node_interrupts_its_graph() -> None:
    ran = Ran()
    handled: list[str] = []

    @node
    async def a(state: State) -> State:
        step = this_step()
        ran("a")
        try:
            return {"seen": [await step.ask("Which?", as_=str)]}
        except Exception as error:
            handled.append(repr(error))
            raise

    graph = chain(a).compile(checkpointer=StepwellSaver())

    work = going(graph)

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, KEPT, value=encode("this"))
    assert result_of(await step.attempt(work)) == {"seen": ["this"]}
    assert ran.names == ["a", "a"]
    assert not handled


async def test_a_graph_within_a_node_goes_on_at_its_own_node() -> None:
    ran = Ran("inner-2")

    @node
    async def one(state: State) -> State:
        return {"seen": [ran("inner-1")]}

    @node
    async def two(state: State) -> State:
        return {"seen": [ran("inner-2"), interrupt("Which?")]}

    inner = chain(one, two).compile()
    graph = chain(inner).compile(checkpointer=StepwellSaver())

    work = going(graph)

    step = JournaledStep()
    await crashed(step, work)
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, KEPT, value=encode("this"))
    assert result_of(await step.attempt(work)) == {"seen": ["inner-1", "inner-2", "this"]}
    assert ran.names.count("inner-1") == 1


def test_a_graph_of_a_step_in_a_thread_goes_on_at_its_node() -> None:
    async def play() -> None:
        ran = Ran("b")

        @node
        def a(state: State) -> State:
            step = this_step()
            return {"seen": [step.call_sync("a", ran, "a")]}

        def b(state: State) -> State:
            return {"seen": [ran("b")]}

        graph = chain(a, b).compile(checkpointer=StepwellSaver())
        config: Any = {"configurable": {"thread_id": "t"}}

        def work(ctx: TaskContext) -> Any:
            given: Any = {"seen": []} if ctx.attempt == 1 else None
            return graph.invoke(given, config, durability="sync")

        step = JournaledStep()
        assert await step.after_crash(work) == {"seen": ["a", "b"]}
        assert ran.names == ["a", "b", "b"]

    asyncio.run(play())


async def test_delta_channels_are_put_together_again_from_their_writes() -> None:
    ran = Ran("n6")

    def made(name: str) -> Any:
        async def one(state: Deltas) -> Deltas:
            return {"seen": [ran(name)]}

        return one

    builder = StateGraph(Deltas)
    builder.add_sequence([(f"n{number}", made(f"n{number}")) for number in range(8)])
    builder.add_edge(START, "n0")
    graph = builder.compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        return (await run(graph, {"seen": []}))["seen"]

    step = JournaledStep()
    assert await step.after_crash(work) == [f"n{number}" for number in range(8)]
    assert len(ran.names) == 9


async def test_a_checkpoint_holds_only_what_changed() -> None:
    class Two(TypedDict, total=False):
        large: str
        small: str

    async def a(state: Two) -> Two:
        return {"small": "a"}

    builder = StateGraph(Two)
    builder.add_sequence([("a", a)])
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        return await run(graph, {"large": "x" * 100_000, "small": ""})

    step = JournaledStep()
    assert result_of(await step.attempt(work))["small"] == "a"
    large = [one for one in step.kept(KEPT) if len(one.value.data) > 100_000]
    assert len(large) == 3  # The input, what START wrote of it, and the channel.


async def test_a_deleted_thread_stays_deleted() -> None:
    saver = StepwellSaver()

    async def a(state: State) -> State:
        return {"seen": ["a"]}

    graph = chain(a).compile(checkpointer=saver)

    async def work(ctx: TaskContext) -> Any:
        if ctx.attempt == 1:
            await run(graph, {"seen": []}, thread_id="one")
            await run(graph, {"seen": []}, thread_id="two")
            await saver.adelete_thread("one")
            raise Crash
        configs = [one.config async for one in saver.alist(None)]
        return sorted({one.get("configurable", {})["thread_id"] for one in configs})

    step = JournaledStep()
    assert await step.after_crash(work) == ["two"]


async def test_a_value_that_only_pickle_could_keep_is_refused() -> None:
    class Odd:
        pass

    async def a(state: State) -> Any:
        return {"seen": [Odd()]}

    graph = chain(a).compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        await run(graph, {"seen": []})

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("INVALID_RESULT", False)
    assert "Odd" in failure.message


async def test_a_graph_without_the_saver_is_refused() -> None:
    async def work(ctx: TaskContext) -> Any:
        with pytest.raises(JournalError, match="StepwellSaver"):
            await run(chain(lambda state: state).compile(), {"seen": []})
        return "told"

    assert result_of(await JournaledStep().attempt(work)) == "told"
