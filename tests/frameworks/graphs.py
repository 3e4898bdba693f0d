"""Graphs of LangGraph for the tests, and nodes that note that they run."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph

from stepwell_client import TaskContext
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.langgraph import run
from tests.support.journal import Crash

KEPT = types_pb2.JOURNAL_MARK_END


class State(TypedDict, total=False):
    seen: Annotated[list[str], operator.add]


class Ran:
    """Notes what ran, and crashes once where it is told."""

    def __init__(self, *crashes: str) -> None:
        self.names: list[str] = []
        self.crashes = list(crashes)

    def __call__(self, name: str) -> str:
        self.names.append(name)
        if name in self.crashes:
            self.crashes.remove(name)
            raise Crash
        return name


def chain(*nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(State)
    builder.add_sequence([(f"n{number}", one) for number, one in enumerate(nodes)])
    builder.add_edge(START, "n0")
    return builder


def going(graph: Any, *seen: str, lost: bool = False) -> Any:
    """Return a step that runs a graph; `lost`: its first attempt is lost once the graph has ended."""

    async def work(ctx: TaskContext) -> Any:
        output = await run(graph, {"seen": list(seen)})
        if lost and ctx.attempt == 1:
            raise Crash
        return output

    return work
