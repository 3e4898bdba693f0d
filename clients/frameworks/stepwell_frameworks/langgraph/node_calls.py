"""Makes the work of a graph's nodes and tools calls of a step, with scopes and usage."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from stepwell_client import Release, StepContext, decode
from stepwell_client.errors import Suspended
from stepwell_client.internal import code_run, digest_of, journaled_step
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.langgraph.step_log import MEDIA_TYPE, SCOPE, packed, unpacked
from stepwell_frameworks.tool_options import Options, tool_options

_NODE_CHARS_MAX = 64
"""The part of a node's name that is in the keys of its calls."""
_NS_SEP, _NS_END = "|", ":"
"""Separators between the graphs of a task's namespace, and between a node's name and its task's id."""
_SERDE = JsonPlusSerializer(pickle_fallback=False)

_ENTERED: ContextVar[str] = ContextVar("stepwell_graph_task", default="")
"""The scope of the graph's task whose calls have it already."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
ToolResult = ToolMessage | Command[Any]


def node(function: F) -> F:
    """Give the calls of a node's function (`ctx.call` and `journaled` runnables) keys of the graph's task.

    The calls are found again when the node runs again: in the next attempt, after an interrupt, or
    by its retry policy. If the step is handed back within the function, the graph is interrupted.
    Outside of a step the function runs unchanged.
    """
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def run_async(*arguments: Any, **named: Any) -> Any:
            with _task():
                return await function(*arguments, **named)

        return cast("F", run_async)

    @wraps(function)
    def run_sync(*arguments: Any, **named: Any) -> Any:
        with _task():
            return function(*arguments, **named)

    return cast("F", run_sync)


@contextmanager
def _task() -> Generator[None]:
    """Enter the scope of the running task of the graph. Ends as an interrupt of the graph if the step is suspended."""
    step = journaled_step()
    if step is None:
        yield
        return
    name, is_one_tasks = _scope(get_config())
    entered = _ENTERED.set(name)
    try:
        with step.scope(SCOPE), step.scope(name), code_run() if is_one_tasks else nullcontext():
            yield
    except Suspended:
        raise GraphInterrupt from None
    finally:
        _ENTERED.reset(entered)


@contextmanager
def _call(step: StepContext) -> Generator[None]:
    """Make a call of a model or a tool. In a node without `node` it has the scope of the graph's task all the same.

    An interrupt is a pause of the tool, no failure: it passes through the call as a Release.
    """
    name = task_scope()
    is_new = name not in ("", _ENTERED.get())
    try:
        with (
            step.scope(SCOPE) if is_new else nullcontext(),
            step.scope(name) if is_new else nullcontext(),
        ):
            yield
    except Release as error:
        if isinstance(error.__cause__, GraphBubbleUp):
            raise error.__cause__ from None
        raise


@contextmanager
def _pauses() -> Generator[None]:
    try:
        yield
    except GraphBubbleUp as pause:
        raise Release("the graph is interrupted") from pause


def task_scope() -> str:
    """Return the scope of the graph's task that runs here; empty outside of graphs."""
    config = ensure_config()
    return _scope(config)[0] if "langgraph_node" in config.get("metadata", {}) else ""


def _scope(config: RunnableConfig) -> tuple[str, bool]:
    """Return the scope of the running task of the graph, and whether the scope belongs to it alone.

    Only with a checkpointer do the enclosing tasks have the same ids in the next attempt. Without
    one, tasks of this name in several runs of a graph share a scope and count their calls together.
    """
    given, metadata = config.get("configurable", {}), config.get("metadata", {})
    node = str(metadata["langgraph_node"])
    around = str(metadata["langgraph_checkpoint_ns"]).split(_NS_SEP)[:-1]
    is_kept = given.get(CONFIG_KEY_CHECKPOINTER) is not None
    if not is_kept:
        around = [part.split(_NS_END)[0] for part in around]
    place = [metadata["langgraph_step"], *_numbers(metadata.get("langgraph_path", ()))]
    digest = digest_of(str(given.get("thread_id", "")), around, node, place)
    return f"{node[:_NODE_CHARS_MAX]}.{digest}", is_kept


def _numbers(path: Any) -> list[int]:
    """Return the numbers in a task's path, which identify concurrent tasks of a node."""
    if isinstance(path, int) and not isinstance(path, bool):
        return [path]
    if isinstance(path, tuple | list):
        return [number for part in cast("Sequence[Any]", path) for number in _numbers(part)]
    return []


def wrap_tool_call(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], ToolResult]
) -> ToolResult:
    """Make each tool call a call of the step; for `ToolNode(…, wrap_tool_call=wrap_tool_call)`.

    A tool's metadata may have the options `effect`, `retry` and `reconcile` of `ctx.call`:
    `{"stepwell": {"effect": Effect.AT_MOST_ONCE}}`. With `{"stepwell": False}` calls aren't
    recorded, and the tool runs in each attempt.
    """
    step, options = journaled_step(), _options(request)
    if step is None or options is False:
        return execute(request)
    call = request.tool_call
    value = kept_sync(step, call["name"], lambda: execute(request), _asked(request), options)
    return _result(value, request)


async def awrap_tool_call(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[ToolResult]]
) -> ToolResult:
    """Make each tool call a call of the step, in graphs that run on an event loop; see `wrap_tool_call`."""
    step, options = journaled_step(), _options(request)
    if step is None or options is False:
        return await execute(request)
    call = request.tool_call
    value = await kept(step, call["name"], lambda: execute(request), _asked(request), options)
    return _result(value, request)


def _options(request: ToolCallRequest) -> Options | Literal[False]:
    metadata = request.tool.metadata if request.tool is not None else None
    return tool_options(request.tool_call["name"], metadata)


def _asked(request: ToolCallRequest) -> object:
    return [request.tool_call["args"], request.tool_call.get("id")]


def _result(value: Any, request: ToolCallRequest) -> ToolResult:
    """Return a tool's result. A result that a person gave for a call with an unknown outcome becomes its content."""
    if isinstance(value, ToolMessage | Command):
        return cast("ToolResult", value)
    call = request.tool_call
    text = value if isinstance(value, str) else str(value)
    return ToolMessage(content=text, name=call["name"], tool_call_id=call.get("id") or "")


async def kept(
    step: StepContext,
    name: str,
    function: Callable[[], Awaitable[T]],
    asked: object,
    options: Options = MappingProxyType({}),
) -> Any:
    """Return the value of a call of a model or a tool, from now or from an earlier attempt."""

    async def run(_: str) -> types_pb2.Payload:
        with _pauses():
            return _counted(step, await function())

    with _call(step):
        call = step.call(name, run, digest_of(asked), as_=types_pb2.Payload, **options)
        return _value(await call)


def kept_sync(
    step: StepContext,
    name: str,
    function: Callable[[], T],
    asked: object,
    options: Options = MappingProxyType({}),
) -> Any:
    """Return the value of a call from a thread; see `kept`."""

    def run(_: str) -> types_pb2.Payload:
        with _pauses():
            return _counted(step, function())

    with _call(step):
        call = step.call_sync(name, run, digest_of(asked), as_=types_pb2.Payload, **options)
        return _value(call)


def _counted(step: StepContext, value: object) -> types_pb2.Payload:
    """Count the usage of a model's answer; return the answer serialized."""
    if isinstance(value, AIMessage) and value.usage_metadata is not None:
        step.usage(
            input_tokens=value.usage_metadata["input_tokens"],
            output_tokens=value.usage_metadata["output_tokens"],
            model=str(value.response_metadata.get("model_name", "")),
        )
    return packed(_SERDE, value)


def _value(payload: types_pb2.Payload) -> Any:
    if payload.media_type.startswith(MEDIA_TYPE):
        return unpacked(_SERDE, payload)
    return decode(payload)
