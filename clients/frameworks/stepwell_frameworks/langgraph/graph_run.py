"""Runs a graph in a step: continues from its last checkpoint, and makes its pauses questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.constants import CONFIG_KEY_CHECKPOINTER, START
from langgraph.types import Command, Interrupt, StateSnapshot

from stepwell_client import Failure, JournalError, NonRetryable, QuestionKind, StepContext
from stepwell_client.internal import (
    PROMPT_BYTES_MAX,
    clip,
    digest_of,
    journaled_step,
    on_loop,
    opened_calls,
)
from stepwell_frameworks.langgraph.node_calls import task_scope
from stepwell_frameworks.langgraph.saver import StepwellSaver

THREAD = "graph"
"""The default thread of a graph."""
TURN = "stepwell_turn"
"""The field of a checkpoint's metadata that says which run of its thread made it."""
NOT_APPROVED = "NOT_APPROVED"
"""The kind of the failure when a person doesn't let a graph go on after a breakpoint."""
TURN_FAILED = "TURN_FAILED"
"""The kind of the failure when an earlier run of a thread had failed, and its caller went on."""
_QUESTION = frozenset({"prompt", "kind", "schema", "choices", "expires", "on_expiry"})


class Graph(Protocol):
    """The parts of a compiled graph that are used here."""

    @property
    def checkpointer(self) -> Any: ...
    @property
    def ainvoke(self) -> Callable[..., Awaitable[Any]]: ...
    @property
    def aget_state(self) -> Callable[..., Awaitable[StateSnapshot]]: ...
    @property
    def aget_state_history(self) -> Callable[..., AsyncIterator[StateSnapshot]]: ...


async def run(
    graph: Graph,
    input: Any,  # noqa: A002 - the name is the framework's
    config: RunnableConfig | None = None,
    *,
    thread_id: str = THREAD,
    **options: Any,
) -> Any:
    """Run a graph to its end, and return its output. Its checkpointer must be a StepwellSaver.

    Each run of a thread is a turn: it begins with its input and the state that the turn before it
    left. An attempt that finds checkpoints of the turn continues from the last one and ignores the
    input; a turn that was over returns its output. Graphs that aren't one conversation have threads
    of their own.

    The argument of `interrupt` is a question to a person: a text, or a dict with `prompt` and the
    arguments of `ctx.ask` (`kind`, `schema`, `choices`, `expires`, `on_expiry`); anything else is
    shown as JSON. Interrupts that are open together are asked together, and the graph continues
    once all are answered. At a breakpoint (`interrupt_before`, `interrupt_after`) a person is asked
    whether to go on; a denial raises NonRetryable. `options` go to `ainvoke`.
    """
    step = journaled_step()
    if step is None:
        return await graph.ainvoke(input, config, **options)
    if not isinstance(graph.checkpointer, StepwellSaver):
        raise JournalError("run() goes on from checkpoints: compile the graph with a StepwellSaver")
    config = {**(config or {})}
    config["configurable"] = given = {
        "thread_id": thread_id,
        **config.get("configurable", {}),
        # Also used by graphs that the nodes run.
        CONFIG_KEY_CHECKPOINTER: graph.checkpointer.for_step(step),
    }
    turn = _turn(step, str(given["thread_id"]))
    config["metadata"] = {**config.get("metadata", {}), TURN: turn}
    options.setdefault("durability", "sync")
    state = await graph.aget_state(config)
    is_new = (state.metadata or {}).get(TURN) != turn
    if is_new and state.created_at is not None:
        async for ended in graph.aget_state_history(config, filter={TURN: turn}, limit=1):
            return _output_of(graph, ended)
    is_stopped = False
    while True:
        if is_new:
            given, is_new = input, False
        elif state.interrupts:
            given = await on_loop(step)(_answers(step, state))
        else:
            await _pass_breakpoints(step, graph, config, options, is_stopped=is_stopped)
            given = None
        output = await graph.ainvoke(given, config, **options)
        opened_calls(step).frame()  # Raises Suspended where a node has suspended the step.
        state = await graph.aget_state(config)
        if not state.next:
            return output
        is_stopped = True


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


def _turn(step: StepContext, thread_id: str) -> str:
    """Return the id of the next turn of a thread. Turns are counted in each task of an enclosing graph separately."""
    frame = opened_calls(step).frame()
    place = f"{frame.prefix}{task_scope()}"
    counted = f"{place}turn/{thread_id}"
    frame.run.counts[counted] = number = frame.run.counts.get(counted, 0) + 1
    return f"{place}#{number}"


def _output_of(graph: Any, state: StateSnapshot) -> Any:
    """Return the output of a turn that was over before another turn of its thread began."""
    if state.next:
        nodes = ", ".join(state.next)
        raise Failure(f"an earlier turn of the thread had failed, before {nodes}", kind=TURN_FAILED)
    channels, values = graph.output_channels, state.values
    if isinstance(channels, str):
        return values
    return {name: values[name] for name in channels if name in values}


async def _pass_breakpoints(
    step: StepContext,
    graph: Graph,
    config: RunnableConfig,
    options: Mapping[str, Any],
    *,
    is_stopped: bool,
) -> None:
    """Ask a person whether to go on, if the graph is at a breakpoint. Raises NonRetryable if not.

    `is_stopped`: the graph ended in this attempt, with nodes that are open. Otherwise it may have
    been cut off before these nodes.
    """
    state = await graph.aget_state(config, subgraphs=True)
    found = await _breakpoints(graph, graph.checkpointer, state, options)
    if not found:
        if is_stopped:
            raise JournalError(
                f"the graph stopped before {', '.join(state.next)}, and run() can't tell why: instead of "
                "interrupt_before or interrupt_after in a graph that a node invokes, use interrupt()"
            )
        return
    # The ids of checkpoints come from the journal, so they are the same in each attempt.
    key = f"breakpoint-{digest_of(sorted(found.items()))}"
    prompt = clip(f"Go on with {', '.join(sorted(found))}?", PROMPT_BYTES_MAX)
    answer: Any = await step.ask(prompt, kind=QuestionKind.APPROVAL, key=key)
    details = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {"approved": answer}
    if not details.get("approved"):
        reason = details.get("message") or "a person said no"
        raise NonRetryable(f"{prompt} {reason}", kind=NOT_APPROVED)


async def _breakpoints(
    graph: Any, saver: StepwellSaver, state: StateSnapshot, options: Mapping[str, Any]
) -> dict[str, str]:
    """Return the open nodes at breakpoints of a graph and of the graphs within it, each with its checkpoint's id."""

    def nodes(option: str) -> Any:
        given = options.get(option)
        return getattr(graph, f"{option}_nodes") if given is None else given

    before, after = nodes("interrupt_before"), nodes("interrupt_after")
    found = {name for name in state.next if name != START and (before == "*" or name in before)}
    if after:
        ran = await _ran(saver, state)
        if ran if after == "*" else ran & {*after}:
            # A graph within another one may also stop after its last node; it is named for its own.
            found |= set(state.next) or {""}
    checkpoint_id = state.config.get("configurable", {}).get("checkpoint_id", "")
    stops = dict.fromkeys(found, str(checkpoint_id))
    inner = dict(graph.get_subgraphs())
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot) and task.name in inner:
            within = await _breakpoints(inner[task.name], saver, task.state, {})
            stops |= {name or task.name: stop for name, stop in within.items()}
    return stops


async def _ran(saver: StepwellSaver, state: StateSnapshot) -> set[str]:
    """Return the nodes that ran in the step of the graph that made a checkpoint."""
    made = await saver.aget_tuple(state.config)
    if made is None or made.parent_config is None:
        return set()
    before = await saver.aget_tuple(made.parent_config)
    was = before.checkpoint["versions_seen"] if before is not None else {}
    seen = made.checkpoint["versions_seen"]
    return {one for one in seen if seen[one] != was.get(one) and not one.startswith("__")}


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
