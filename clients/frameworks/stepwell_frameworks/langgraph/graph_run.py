"""Runs a graph in a step: continues from its last checkpoint, and makes its interrupts questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import Command, Interrupt, StateSnapshot

from stepwell_client import JournalError, StepContext
from stepwell_client.internal import PROMPT_BYTES_MAX, clip, journaled_step, on_loop
from stepwell_frameworks.langgraph.saver import StepwellSaver

THREAD = "graph"
"""The default thread of a graph."""
_QUESTION = frozenset({"prompt", "kind", "schema", "choices", "expires", "on_expiry"})


class Graph(Protocol):
    """The parts of a compiled graph that are used here."""

    @property
    def checkpointer(self) -> Any: ...
    @property
    def ainvoke(self) -> Callable[..., Awaitable[Any]]: ...
    @property
    def aget_state(self) -> Callable[..., Awaitable[StateSnapshot]]: ...


async def run(
    graph: Graph,
    input: Any,  # noqa: A002 - the name is the framework's
    config: RunnableConfig | None = None,
    *,
    thread_id: str = THREAD,
    **options: Any,
) -> Any:
    """Run a graph to its end, and return its output. Its checkpointer must be a StepwellSaver.

    An attempt that finds checkpoints of the thread continues from the last one and ignores the
    input. A step that runs several graphs, or one several times, gives each run its own thread.

    The argument of `interrupt` is a question to a person: a text, or a dict with `prompt` and the
    arguments of `ctx.ask` (`kind`, `schema`, `choices`, `expires`, `on_expiry`); anything else is
    shown as JSON. Interrupts that are open together are asked together, and the graph continues
    once all are answered. `options` go to `ainvoke`.
    """
    step = journaled_step()
    if step is None:
        return await graph.ainvoke(input, config, **options)
    if not isinstance(graph.checkpointer, StepwellSaver):
        raise JournalError("run() goes on from checkpoints: compile the graph with a StepwellSaver")
    config = {**(config or {})}
    config["configurable"] = {
        "thread_id": thread_id,
        **config.get("configurable", {}),
        # Also used by graphs that the nodes run.
        CONFIG_KEY_CHECKPOINTER: graph.checkpointer.for_step(step),
    }
    options.setdefault("durability", "sync")
    state = await graph.aget_state(config)
    given = input if state.created_at is None else None
    while True:
        if state.interrupts:
            given = await on_loop(step)(_answers(step, state))
        output = await graph.ainvoke(given, config, **options)
        state = await graph.aget_state(config)
        if not state.interrupts:
            return output


def run_sync(
    graph: Graph,
    input: Any,  # noqa: A002 - the name is the framework's
    config: RunnableConfig | None = None,
    *,
    thread_id: str = THREAD,
    **options: Any,
) -> Any:
    """Run a graph to its end, from a thread with its own event loop, and return its output; see `run`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(graph, input, config, thread_id=thread_id, **options))
    raise JournalError("an event loop runs in this thread: await run(…) instead of run_sync(…)")


async def _answers(step: StepContext, state: StateSnapshot) -> Command[Any]:
    values = await asyncio.gather(*(_ask(step, one) for one in state.interrupts))
    ids = [one.id for one in state.interrupts]
    return Command(resume=dict(zip(ids, values, strict=True)))


async def _ask(step: StepContext, interrupt: Interrupt) -> Any:
    value = interrupt.value
    question: dict[str, Any] = {}
    if isinstance(value, Mapping):
        question = dict(cast("Mapping[str, Any]", value))
    if "prompt" not in question or not set(question) <= _QUESTION:
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        )
        question = {"prompt": clip(text, PROMPT_BYTES_MAX)}
    # The id comes from the node's task and the number of its interrupt, so it is the same in each
    # attempt.
    return await step.ask(**question, key=f"interrupt-{interrupt.id}")
