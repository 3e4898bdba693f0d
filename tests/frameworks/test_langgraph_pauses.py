"""Interrupts and breakpoints of graphs: a pause is a question, and no failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from stepwell_client import Effect, Retry, TaskContext, encode
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.langgraph import StepwellSaver, run, run_sync
from tests.frameworks.graphs import KEPT, Ran, State, chain, going
from tests.frameworks.test_langgraph_calls import calling, contents, tools_graph
from tests.support.journal import JournaledStep, crashed, result_of


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"retry": Retry(max_attempts=3, initial_backoff=0.0)},
        {"effect": Effect.AT_MOST_ONCE},
        {"effect": Effect.AT_MOST_ONCE, "retry": Retry(max_attempts=1)},
    ],
)
async def test_interrupt_of_a_tool_is_one_question_and_no_failed_try(options: Any) -> None:
    ran = Ran()

    @tool
    async def pay(what: str) -> str:
        """Pay."""
        answer = interrupt("May I?")
        return ran(f"{what} {answer}")

    @tool
    async def find(what: str) -> str:
        """Find."""
        await asyncio.sleep(0)
        return ran(what)

    pay.metadata = {"stepwell": options}
    graph = tools_graph(pay, find)

    async def work(ctx: TaskContext) -> Any:
        return contents((await run(graph, calling("pay", "find")))["messages"])

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    assert wait.ask.prompt == "May I?"
    step.keep(wait.call, KEPT, value=encode("yes"))
    assert result_of(await step.attempt(work)) == ["pay yes", "find"]
    assert sorted(ran.names) == ["find", "pay yes"]
    tries = [one.failure.kind for one in step.kept(types_pb2.JOURNAL_MARK_TRY)]
    assert tries == (["NOT_DONE"] if "effect" in options else [])


async def test_interrupt_of_a_tool_in_a_thread_is_no_failed_try() -> None:
    ran = Ran()

    @tool
    def pay(what: str) -> str:
        """Pay."""
        return ran(f"{what} {interrupt('May I?')}")

    pay.metadata = {"stepwell": {"retry": Retry(max_attempts=3, initial_backoff=0.0)}}
    graph = tools_graph(pay)

    def work(ctx: TaskContext) -> Any:
        return contents(run_sync(graph, calling("pay"))["messages"])

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, KEPT, value=encode("yes"))
    assert result_of(await step.attempt(work)) == ["pay yes"]
    assert not step.kept(types_pb2.JOURNAL_MARK_TRY)


def drafted(ran: Ran) -> Any:
    async def draft(state: State) -> State:
        return {"seen": [ran("draft")]}

    async def pay(state: State) -> State:
        return {"seen": [ran("pay")]}

    builder = StateGraph(State)
    builder.add_sequence([("draft", draft), ("pay", pay)])
    builder.add_edge(START, "draft")
    return builder


def within(graph: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("outer", graph)
    builder.add_edge(START, "outer")
    return builder.compile(checkpointer=StepwellSaver())


BREAKPOINTS = [
    {"interrupt_before": ["pay"]},
    {"interrupt_after": ["draft"]},
    {"interrupt_after": "*"},
]


def stopping(ran: Ran, where: Any, how: str) -> Any:
    """Return a step that runs a graph with a breakpoint of the graph, of the run, or of a graph within it."""
    saver = StepwellSaver()

    async def work(ctx: TaskContext) -> Any:
        if how == "run":
            graph, options = drafted(ran).compile(checkpointer=saver), where
        elif how == "inner":
            graph, options = within(drafted(ran).compile(**where)), {}
        else:
            graph, options = drafted(ran).compile(checkpointer=saver, **where), {}
        return (await run(graph, {"seen": []}, **options))["seen"]

    return work


@pytest.mark.parametrize("how", ["graph", "run", "inner"])
@pytest.mark.parametrize("where", BREAKPOINTS, ids=str)
async def test_breakpoint_asks_a_person_and_the_graph_goes_on(where: Any, how: str) -> None:
    ran = Ran("pay")
    work = stopping(ran, where, how)
    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    assert (wait.ask.prompt, ran.names) == ("Go on with pay?", ["draft"])
    # An attempt that finds the graph before `pay` asks the same, as after a crash there.
    (again,) = (await step.attempt(work)).suspended.waits
    assert (again.call, ran.names) == (wait.call, ["draft"])
    step.keep(wait.call, KEPT, value=encode(True))
    await crashed(step, work)
    outcome = await step.attempt(work)
    if how == "inner" and where == {"interrupt_after": "*"}:
        (last,) = outcome.suspended.waits
        assert last.ask.prompt == "Go on with outer?"
        step.keep(last.call, KEPT, value=encode(True))
        outcome = await step.attempt(work)
    assert result_of(outcome) == ["draft", "pay"]
    assert ran.names == ["draft", "pay", "pay"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(False, "a person said no"), ({"approved": False, "message": "Too dear."}, "Too dear.")],
)
async def test_denial_at_a_breakpoint_ends_the_step(answer: Any, words: str) -> None:
    ran = Ran()
    work = stopping(ran, {"interrupt_before": ["pay"]}, "graph")
    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    step.keep(wait.call, KEPT, value=encode(answer))
    failure = (await step.attempt(work)).failed.failure
    assert (failure.kind, failure.retryable) == ("NOT_APPROVED", False)
    assert failure.message == f"Go on with pay? {words}"
    assert ran.names == ["draft"]


async def test_breakpoint_of_a_graph_that_a_node_invokes_is_refused_by_name() -> None:
    ran = Ran()
    inner: list[Any] = [drafted(ran).compile(interrupt_before=["pay"])]

    async def outer(state: State) -> State:
        return await inner[0].ainvoke({"seen": []})

    graph = chain(outer).compile(checkpointer=StepwellSaver())

    work = going(graph)

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert failure.kind == "JournalError"
    assert "interrupt_before" in failure.message
    assert ran.names == ["draft"]
