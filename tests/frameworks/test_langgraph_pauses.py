"""Interrupts and breakpoints of graphs: a pause is a question, and no failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.types import interrupt

from stepwell_client import Effect, Retry, TaskContext, encode
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.langgraph import run
from tests.frameworks.graphs import KEPT, Ran
from tests.frameworks.test_langgraph_calls import calling, contents, tools_graph
from tests.support.journal import JournaledStep, result_of


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
