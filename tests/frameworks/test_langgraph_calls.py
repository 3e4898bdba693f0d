"""Calls of a graph's nodes, models and tools within a step: which come from the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, Send

from stepwell_client import Effect, TaskContext, encode
from stepwell_frameworks.langgraph import (
    StepwellSaver,
    awrap_tool_call,
    journaled,
    node,
    run,
    wrap_tool_call,
)
from tests.frameworks.graphs import KEPT, Ran, State, chain, going
from tests.support.journal import JournaledStep, crashed, result_of, this_step


class What(TypedDict):
    what: str


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def test_calls_of_a_node_come_from_the_journal_though_the_node_runs_again() -> None:
    ran = Ran("late")

    @node
    async def a(state: State) -> State:
        step = this_step()
        first = await step.call("first", ran, "first", key="mine")
        return {"seen": [first, await step.call("late", ran, "late")]}

    graph = chain(a, a).compile(checkpointer=StepwellSaver())

    work = going(graph)

    step = JournaledStep()
    assert await step.after_crash(work) == {"seen": ["first", "late", "first", "late"]}
    assert ran.names == ["first", "late", "late", "first", "late"]


async def test_calls_of_nodes_that_had_ended_are_not_unasked_ones() -> None:
    ran = Ran("b")

    @node
    async def a(state: State) -> State:
        step = this_step()
        return {"seen": [await step.call("first", ran, "first")]}

    async def b(state: State) -> State:
        return {"seen": [ran("b")]}

    graph = chain(a, b).compile(checkpointer=StepwellSaver())

    work = going(graph)

    step = JournaledStep()
    await crashed(step, work)
    assert result_of(await step.attempt(work, strict=True)) == {"seen": ["first", "b"]}


async def test_tasks_side_by_side_have_keys_of_their_own() -> None:
    ran = Ran()

    @node
    async def one(state: What) -> State:
        step = this_step()
        return {"seen": [await step.call("look", ran, state["what"], key="mine")]}

    def fan(state: State) -> list[Send]:
        return [Send("one", {"what": what}) for what in ("x", "y", "z")]

    builder = StateGraph(State)
    builder.add_node("one", one)
    builder.add_conditional_edges(START, fan, ["one"])
    graph = builder.compile(checkpointer=StepwellSaver())

    work = going(graph, lost=True)

    step = JournaledStep()
    assert await step.after_crash(work) == {"seen": ["x", "y", "z"]}
    assert sorted(ran.names) == ["x", "y", "z"]
    assert len({one.key for one in step.kept(KEPT) if one.name == "look"}) == 3


async def test_a_node_that_its_graph_tries_again_finds_its_calls() -> None:
    ran = Ran()
    broken = [True]

    @node
    async def a(state: State) -> State:
        step = this_step()
        value = await step.call("first", ran, "first", key="mine")
        if broken:
            broken.pop()
            raise ConnectionError("the line was cut")
        return {"seen": [value]}

    builder = StateGraph(State)
    builder.add_node("a", a, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=StepwellSaver())

    work = going(graph)

    assert result_of(await JournaledStep().attempt(work)) == {"seen": ["first"]}
    assert ran.names == ["first"]


async def test_models_answer_from_the_journal_and_their_usage_is_counted() -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    answers = iter([AIMessage("two bees", usage_metadata=usage)])
    model = journaled(GenericFakeChatModel(messages=answers), "model")
    crash = Ran("after")

    @node
    async def think(state: Chat) -> Chat:
        answer = await model.ainvoke(state["messages"])
        crash("after")
        return {"messages": [answer]}

    builder = StateGraph(Chat)
    builder.add_node("think", think)
    builder.add_edge(START, "think")
    graph = builder.compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        output = await run(graph, {"messages": [HumanMessage("count")]})
        return output["messages"][-1].content

    step = JournaledStep()
    assert await step.after_crash(work) == "two bees"
    (entry,) = [one for one in step.kept(KEPT) if one.name == "model"]
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (10, 2)


def tools_graph(*tools: Any) -> Any:
    builder = StateGraph(Chat)
    given = ToolNode(tools, wrap_tool_call=wrap_tool_call, awrap_tool_call=awrap_tool_call)
    builder.add_node("tools", given)
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    return builder.compile(checkpointer=StepwellSaver())


def calling(*names: str) -> Chat:
    calls = [{"name": one, "args": {"what": one}, "id": f"call-{one}"} for one in names]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def contents(messages: Sequence[Any]) -> list[Any]:
    return [one.content for one in messages if isinstance(one, ToolMessage)]


async def test_a_tools_result_is_kept_though_another_crashes() -> None:
    ran = Ran("second")
    done = asyncio.Event()

    @tool
    async def first(what: str) -> str:
        """Look."""
        return ran(what)

    @tool
    async def second(what: str) -> str:
        """Look."""
        step = this_step()
        await step.call("wait", done.wait)
        return ran(what)

    graph = tools_graph(first, second)

    async def work(ctx: TaskContext) -> Any:
        return contents((await run(graph, calling("first", "second")))["messages"])

    step = JournaledStep()
    step.services.on_record = lambda entry: done.set() if entry.name == "first" else None
    assert await step.after_crash(work) == ["first", "second"]
    assert ran.names == ["first", "second", "second"]


async def test_an_at_most_once_tool_that_began_is_not_called_again() -> None:
    ran = Ran("pay")

    @tool
    async def pay(what: str) -> str:
        """Pay."""
        return ran(what)

    pay.metadata = {"stepwell": {"effect": Effect.AT_MOST_ONCE}}
    graph = tools_graph(pay)

    async def work(ctx: TaskContext) -> Any:
        return contents((await run(graph, calling("pay")))["messages"])

    step = JournaledStep()
    await crashed(step, work)
    key = (await step.attempt(work)).unknown_call.call
    step.keep(key, KEPT, value=encode("receipt 7"))
    assert result_of(await step.attempt(work)) == ["receipt 7"]
    assert ran.names == ["pay"]


@pytest.mark.parametrize("options", [{"effects": 1}, True, None])
async def test_an_unknown_option_of_a_tool_fails_the_attempt(options: object) -> None:
    ran = Ran()

    @tool
    async def find(what: str) -> str:
        """Find."""
        return ran(what)

    find.metadata = {"stepwell": options}
    graph = tools_graph(find)

    async def work(ctx: TaskContext) -> Any:
        return await run(graph, calling("find"))

    failure = (await JournaledStep().attempt(work)).failed.failure
    assert "'find': effect, retry, reconcile, or False" in failure.message
    assert (failure.kind, failure.retryable) == ("JournalError", False)
    assert not ran.names


async def test_a_call_of_a_tool_that_is_not_kept_leaves_no_entry() -> None:
    ran = Ran()

    @tool
    async def clock(what: str) -> str:
        """Tell the time."""
        return ran(what)

    clock.metadata = {"stepwell": False}
    graph = tools_graph(clock)

    async def work(ctx: TaskContext) -> Any:
        return contents((await run(graph, calling("clock")))["messages"])

    step = JournaledStep()
    assert result_of(await step.attempt(work)) == ["clock"]
    assert not [one for one in step.kept(KEPT) if one.name == "clock"]


async def test_outside_of_a_step_nodes_and_models_run_as_they_are() -> None:
    doubled = journaled(RunnableLambda(lambda text: f"{text}{text}"), "double")

    @node
    async def a(state: State) -> State:
        return {"seen": [await doubled.ainvoke("a")]}

    assert await run(chain(a).compile(), {"seen": []}) == {"seen": ["aa"]}
