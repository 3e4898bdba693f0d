"""Makes a graph of LangGraph durable in a step: stores its checkpoints and its nodes' calls in the step's journal.

    model = journaled(ChatModel(), "model")

    @node
    async def think(state: State) -> State:
        return {"answer": await model.ainvoke(state["question"])}

    builder.add_node("think", think)
    graph = builder.compile(checkpointer=StepwellSaver())

    @agent.task("read")
    async def read(ctx: TaskContext, question: str) -> str:
        return (await run(graph, {"question": question}))["answer"]

The next attempt continues at the node where the last one ended. Outside of a step, nodes and
`journaled` runnables run unchanged. It needs the extra `langgraph`.
"""

from __future__ import annotations

from stepwell_frameworks.langgraph.graph_run import run, run_sync
from stepwell_frameworks.langgraph.model_calls import journaled
from stepwell_frameworks.langgraph.node_calls import awrap_tool_call, node, wrap_tool_call
from stepwell_frameworks.langgraph.saver import StepwellSaver

__all__ = [
    "StepwellSaver",
    "awrap_tool_call",
    "journaled",
    "node",
    "run",
    "run_sync",
    "wrap_tool_call",
]
