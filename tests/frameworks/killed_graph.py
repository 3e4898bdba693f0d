"""A step that runs a graph of LangGraph, whose nodes and calls note in a file that they run."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from stepwell_client import Agent, TaskContext, current_step
from stepwell_frameworks.langgraph import StepwellSaver, node, run
from tests.chaos.world.gates import noted

agent = Agent("graphs")
RAN = ["find", "find-1", "find-2", "write", "write-1"]
"""Names of its nodes and their calls, in the order in which they run."""


class State(TypedDict):
    seen: Annotated[list[str], operator.add]


def note(name: str) -> str:
    with noted(name):
        return name


async def called(name: str) -> str:
    step = current_step()
    assert step is not None
    return await step.call(name, note, name)


@node
async def find(state: State) -> State:
    note("find")
    return {"seen": [await called("find-1"), await called("find-2")]}


@node
async def write(state: State) -> State:
    note("write")
    return {"seen": [await called("write-1"), interrupt("Print it?")]}


builder = StateGraph(State)
builder.add_sequence([find, write])
builder.add_edge(START, "find")
graph = builder.compile(checkpointer=StepwellSaver())


@agent.task("read")
async def read(ctx: TaskContext) -> Any:
    return (await run(graph, {"seen": []}))["seen"]
