"""Several runs of a graph on one thread: each is a turn of one conversation, with its own input."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph

from stepwell_client import TaskContext, encode
from stepwell_frameworks.langgraph import StepwellSaver, node, run
from tests.frameworks.graphs import KEPT, Ran, State, chain
from tests.support.journal import Crash, JournaledStep, crashed, result_of


class Said(TypedDict):
    seen: Annotated[list[str], operator.add]


def echoing(ran: Ran) -> Any:
    """Return a graph that answers the last message, with the number of messages, and then notes it."""

    async def answer(state: Said) -> State:
        ran(state["seen"][-1])
        return {"seen": [f"{state['seen'][-1]} {len(state['seen'])}"]}

    async def after(state: Said) -> State:
        ran(f"after {state['seen'][-1]}")
        return {}

    return chain(answer, after).compile(checkpointer=StepwellSaver())


TURNS = ("a", "b", "c")
ANSWERS = ["a 1", "b 3", "c 5"]


@pytest.mark.parametrize("crash", ["a", "after a 1", "b", "after b 3", "after c 5"])
async def test_each_turn_has_its_own_input_and_the_state_before_it(crash: str) -> None:
    ran = Ran(crash)
    graph = echoing(ran)

    async def work(ctx: TaskContext) -> Any:
        outputs = [await run(graph, {"seen": [said]}) for said in TURNS]
        return [one["seen"][-1] for one in outputs]

    step = JournaledStep()
    assert await step.after_crash(work) == ANSWERS
    assert len(ran.names) == 7


async def test_turns_that_were_over_give_their_own_outputs_again() -> None:
    ran = Ran()
    graph = echoing(ran)

    async def work(ctx: TaskContext) -> Any:
        outputs = [(await run(graph, {"seen": [said]}))["seen"] for said in TURNS]
        if ctx.attempt == 1:
            raise Crash
        return outputs

    step = JournaledStep()
    await crashed(step, work)
    outputs = result_of(await step.attempt(work))
    assert [len(one) for one in outputs] == [2, 4, 6]
    assert [one[-1] for one in outputs] == ANSWERS
    assert len(ran.names) == 6


async def test_turns_between_questions_go_on_with_each_answer() -> None:
    ran = Ran()
    graph = echoing(ran)

    async def talk(ctx: TaskContext) -> Any:
        outputs: list[str] = []
        for _ in TURNS:
            said = await ctx.ask("What do you say?", as_=str)
            outputs.append((await run(graph, {"seen": [said]}))["seen"][-1])
        return outputs

    step = JournaledStep()
    for said in TURNS:
        (wait,) = (await step.attempt(talk)).suspended.waits
        step.keep(wait.call, KEPT, value=encode(said))
    assert result_of(await step.attempt(talk)) == ANSWERS
    assert len(ran.names) == 6


async def test_state_that_was_put_before_the_first_turn_is_kept() -> None:
    ran = Ran()
    graph = echoing(ran)

    async def work(ctx: TaskContext) -> Any:
        await graph.aupdate_state({"configurable": {"thread_id": "t"}}, {"seen": ["before"]})
        return (await run(graph, {"seen": ["a"]}, thread_id="t"))["seen"]

    assert result_of(await JournaledStep().attempt(work)) == ["before", "a", "a 2"]


async def test_failed_turn_that_its_caller_left_behind_fails_again() -> None:
    class Broken(Exception):
        pass

    ran = Ran("after b 3")

    async def answer(state: Said) -> State:
        if state["seen"][-1] == "a":
            raise Broken
        return {"seen": [ran("answer")]}

    graph = chain(answer).compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        failures: list[str] = []
        for said in ("a", "b"):
            try:
                await run(graph, {"seen": [said]})
            except Exception as error:
                failures.append(getattr(error, "kind", "") or type(error).__name__)
        if ctx.attempt == 1:
            raise Crash
        return failures

    step = JournaledStep()
    assert await step.after_crash(work) == ["TURN_FAILED"]
    assert ran.names == ["answer"]


async def test_turns_of_a_graph_that_nodes_run_belong_to_each_pass_of_the_node() -> None:
    """The node's first pass isn't run again, and its turn isn't mistaken for that of the second."""
    ran = Ran("crash")
    inner = echoing(Ran())

    @node
    async def outer(state: Said) -> State:
        said = f"pass {len(state['seen'])}"
        if said == "pass 1":
            ran("crash")
        return {"seen": [(await run(inner, {"seen": [said]}, thread_id="inner"))["seen"][-1]]}

    builder = StateGraph(State)
    builder.add_sequence([("n0", outer), ("n1", outer)])
    builder.add_edge(START, "n0")
    graph = builder.compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        return (await run(graph, {"seen": []}))["seen"]

    step = JournaledStep()
    assert await step.after_crash(work) == ["pass 0 1", "pass 1 3"]
