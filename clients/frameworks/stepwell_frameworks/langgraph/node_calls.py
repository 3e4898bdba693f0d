"""Makes what the nodes of a graph do calls of a step: their scopes, the digests of what they ask, their usage."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, Literal, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from stepwell_client import StepContext, Suspended, decode
from stepwell_client.internal import code_run, digest_of, journaled_step
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.langgraph.step_log import MEDIA_TYPE, SCOPE, packed, unpacked
from stepwell_frameworks.tool_options import Options, tool_options

_EACH_RUN = {"id", "response_metadata", "usage_metadata"}
"""Fields of messages that are others in each attempt, or say nothing of what is asked."""
_NODE_CHARS_MAX = 64
"""As much of a node's name is in the keys of its calls."""
_NS_SEP, _NS_END = "|", ":"
"""Between the graphs of a task's namespace, and between a node's name and its task's id."""
_SERDE = JsonPlusSerializer(pickle_fallback=False)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
ToolResult = ToolMessage | Command[Any]


def node(function: F) -> F:
    """Make a node's function one whose calls (`ctx.call`, what is `journaled`) have keys of the graph's task.

    They are found again when the node runs again: in the next attempt, after an interrupt, or as its retry policy says.
    A step that is handed back in it interrupts the graph. Outside of a step the function runs as it is.
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
    """Be in the scope of the graph's task that runs here. Ends as the graph's interrupt where the step is suspended."""
    step = journaled_step()
    if step is None:
        yield
        return
    name, is_one_tasks = _scope(get_config())
    try:
        with step.scope(SCOPE), step.scope(name), code_run() if is_one_tasks else nullcontext():
            yield
    except Suspended:
        raise GraphInterrupt from None


def _scope(config: RunnableConfig) -> tuple[str, bool]:
    """Return the name of the scope of the graph's task that runs here, and whether no other task has it.

    Only a checkpointer gives the tasks around this one the same ids in the next attempt. Without one, tasks of this name
    in several runs of a graph share a scope, and their calls are counted on.
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
    """Return the numbers in a task's path: those of a node's tasks that run side by side."""
    if isinstance(path, int) and not isinstance(path, bool):
        return [path]
    if isinstance(path, tuple | list):
        return [number for part in cast("Sequence[Any]", path) for number in _numbers(part)]
    return []


def journaled(runnable: Runnable[Any, Any], name: str) -> Runnable[Any, Any]:
    """Make a model, or another runnable, one whose every invocation is a call of the step that runs here.

    The next attempt is given what was recorded, and the usage of a model's answer is counted. Values are kept as LangGraph
    keeps them. Tools are bound before: `journaled(model.bind_tools(tools), "model")`.
    """

    def invoke(given: Any, config: RunnableConfig) -> Any:
        step = journaled_step()
        if step is None:
            return runnable.invoke(given, config)
        return _kept_sync(step, name, lambda: runnable.invoke(given, config), _form(given), {})

    async def ainvoke(given: Any, config: RunnableConfig) -> Any:
        step = journaled_step()
        if step is None:
            return await runnable.ainvoke(given, config)
        return await _kept(step, name, lambda: runnable.ainvoke(given, config), _form(given), {})

    return RunnableLambda(invoke, afunc=ainvoke, name=name)


def wrap_tool_call(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], ToolResult]
) -> ToolResult:
    """Make each tool's call one of the step: for `ToolNode(…, wrap_tool_call=wrap_tool_call)`.

    A tool's metadata may say how: `{"stepwell": {"effect": Effect.AT_MOST_ONCE}}`; `retry` and `reconcile` as `ctx.call`
    takes them; `{"stepwell": False}`: it isn't kept, and runs in each attempt.
    """
    step, options = journaled_step(), _options(request)
    if step is None or options is False:
        return execute(request)
    call = request.tool_call
    value = _kept_sync(step, call["name"], lambda: execute(request), _asked(request), options)
    return _result(value, request)


async def awrap_tool_call(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[ToolResult]]
) -> ToolResult:
    """Make each tool's call one of the step, in graphs that run on an event loop; see `wrap_tool_call`."""
    step, options = journaled_step(), _options(request)
    if step is None or options is False:
        return await execute(request)
    call = request.tool_call
    value = await _kept(step, call["name"], lambda: execute(request), _asked(request), options)
    return _result(value, request)


def _options(request: ToolCallRequest) -> Options | Literal[False]:
    metadata = request.tool.metadata if request.tool is not None else None
    return tool_options(request.tool_call["name"], metadata)


def _asked(request: ToolCallRequest) -> object:
    return [request.tool_call["args"], request.tool_call.get("id")]


def _result(value: Any, request: ToolCallRequest) -> ToolResult:
    """Return a tool's result. One that a person gave, for a call that nobody knew the end of, is its content."""
    if isinstance(value, ToolMessage | Command):
        return cast("ToolResult", value)
    call = request.tool_call
    text = value if isinstance(value, str) else str(value)
    return ToolMessage(content=text, name=call["name"], tool_call_id=call.get("id") or "")


async def _kept(
    step: StepContext,
    name: str,
    function: Callable[[], Awaitable[T]],
    asked: object,
    options: Options,
) -> Any:
    async def run(_: str) -> types_pb2.Payload:
        return _counted(step, await function())

    call = step.call(name, run, digest_of(asked), as_=types_pb2.Payload, **options)
    return _value(await call)


def _kept_sync(
    step: StepContext,
    name: str,
    function: Callable[[], T],
    asked: object,
    options: Options,
) -> Any:
    def run(_: str) -> types_pb2.Payload:
        return _counted(step, function())

    return _value(step.call_sync(name, run, digest_of(asked), as_=types_pb2.Payload, **options))


def _counted(step: StepContext, value: object) -> types_pb2.Payload:
    """Count what a model's answer used, and return it as it is kept."""
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


def _form(value: Any) -> Any:
    """Return the JSON-like form of what a runnable is given, without what is another one in each attempt."""
    if isinstance(value, PromptValue):
        return _form(value.to_messages())
    if isinstance(value, BaseMessage):
        return value.model_dump(mode="json", exclude=_EACH_RUN)
    if isinstance(value, Mapping):
        return {str(key): _form(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_form(one) for one in cast("Sequence[Any]", value)]
    return value
