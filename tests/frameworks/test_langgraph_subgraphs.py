"""Calls of nodes in graphs within graphs: each task of each graph has calls of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from stepwell_client import TaskContext
from stepwell_frameworks.langgraph import StepwellSaver, node, run
from tests.frameworks.graphs import KEPT, Ran, State, chain
from tests.support.journal import JournaledStep, crashed, result_of, this_step

SAVERS = pytest.mark.parametrize(
    "saver", [StepwellSaver(), None], ids=["with_a_checkpointer", "without_one"]
)


def paying(ran: Ran, key: str | None = None) -> Any:
    """Return a graph whose second node pays, and notes it after that."""

    @node
    async def charge(state: State) -> State:
        step = this_step()
        paid = await step.call("charge", lambda amount: f"{ran('charge')} {amount}", 5, key=key)
        ran("after")
        return {"seen": [paid]}

    async def prepare(state: State) -> State:
        return {}

    return chain(prepare, charge).compile()


async def payments_in(builder: Any, saver: StepwellSaver | None, ran: Ran) -> int:
    """Run a graph in a step, in a second attempt where the first one crashes. Return how often it paid."""
    graph = builder.compile(checkpointer=saver)

    async def work(ctx: TaskContext) -> str:
        if saver is None:
            await graph.ainvoke({"seen": []}, {"configurable": {"thread_id": "t"}})
        else:
            await run(graph, {"seen": []})
        return "over"

    step = JournaledStep()
    if ran.crashes:
        await crashed(step, work)
    assert result_of(await step.attempt(work)) == "over"
    payments = ran.names.count("charge")
    assert len({one.key for one in step.kept(KEPT) if one.name == "charge"}) == payments
    return payments


@SAVERS
@pytest.mark.parametrize("crashes", [(), ("after",)], ids=["at_once", "after_a_crash"])
async def test_graphs_in_two_nodes_each_make_their_calls(
    saver: StepwellSaver | None, crashes: Sequence[str]
) -> None:
    ran = Ran(*crashes)
    builder = chain(paying(ran), paying(ran))
    assert await payments_in(builder, saver, ran) == 2


@SAVERS
@pytest.mark.parametrize("crashes", [(), ("after",)], ids=["at_once", "after_a_crash"])
async def test_each_pass_of_a_loop_through_a_graph_makes_its_calls(
    saver: StepwellSaver | None, crashes: Sequence[str]
) -> None:
    ran = Ran(*crashes)
    builder = chain(paying(ran))

    def is_over(state: State) -> str:
        # The inner graph gives back what it was given, and one more: 1, 3, 7.
        return END if len(state.get("seen", ())) == 7 else "n0"

    builder.add_conditional_edges("n0", is_over, ["n0", END])
    assert await payments_in(builder, saver, ran) == 3


async def test_graphs_side_by_side_in_one_node_each_make_their_calls() -> None:
    ran = Ran()
    builder = StateGraph(State)
    builder.add_node("n0", paying(ran, key="mine"))
    builder.add_conditional_edges(START, lambda _: [Send("n0", {"seen": []})] * 2, ["n0"])
    assert await payments_in(builder, StepwellSaver(), ran) == 2


async def test_names_with_the_marks_of_others_make_calls_of_their_own() -> None:
    """A name that only joined thread, node and step would be one and the same here."""
    ran = Ran()

    def named(name: str) -> Any:
        @node
        async def charge(state: State) -> State:
            step = this_step()
            return {"seen": [await step.call("charge", ran, name, key="mine")]}

        builder = StateGraph(State)
        builder.add_node(name, charge)
        builder.add_edge(START, name)
        return builder.compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        first = await run(named("b.n"), {"seen": []}, thread_id="a")
        second = await run(named("n"), {"seen": []}, thread_id="a.b")
        return [first["seen"], second["seen"]]

    assert result_of(await JournaledStep().attempt(work)) == [["b.n"], ["n"]]
