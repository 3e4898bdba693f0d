"""Functional graphs within functional graphs: what had ended before an interrupt isn't run again after it."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.func import entrypoint, task
from langgraph.types import interrupt

from stepwell_client import TaskContext, encode
from stepwell_frameworks.langgraph import StepwellSaver, node, run
from tests.frameworks.graphs import KEPT, Ran, State, chain
from tests.support.journal import JournaledStep, result_of, this_step


def functional(ran: Ran) -> Any:
    @task
    @node
    async def first() -> str:
        step = this_step()
        return await step.call("first", ran, "first")

    @task
    async def second() -> str:
        return ran("second")

    @entrypoint()
    async def inner(given: str) -> list[str]:
        return [given, await first(), interrupt("Sure?"), await second()]

    return inner


def with_nodes(ran: Ran) -> Any:
    async def first(state: State) -> State:
        return {"seen": [ran("first")]}

    async def ask(state: State) -> State:
        return {"seen": [interrupt("Sure?")]}

    async def second(state: State) -> State:
        return {"seen": [ran("second")]}

    graph = chain(first, ask, second).compile()

    class Inner:
        async def ainvoke(self, given: str) -> Any:
            return (await graph.ainvoke({"seen": [given]}))["seen"]

    return Inner()


@pytest.mark.parametrize("made", [functional, with_nodes])
async def test_tasks_before_an_interrupt_in_a_nested_graph_run_once(made: Any) -> None:
    ran = Ran()
    inner = made(ran)

    @task
    async def before() -> str:
        return ran("before")

    @entrypoint(checkpointer=StepwellSaver())
    async def outer(given: str) -> list[str]:
        return [await before(), *await inner.ainvoke(given)]

    async def work(ctx: TaskContext) -> Any:
        return await run(outer, "in")

    step = JournaledStep()
    (wait,) = (await step.attempt(work)).suspended.waits
    assert ran.names == ["before", "first"]
    step.keep(wait.call, KEPT, value=encode("yes"))
    assert result_of(await step.attempt(work)) == ["before", "in", "first", "yes", "second"]
    assert ran.names == ["before", "first", "second"]
