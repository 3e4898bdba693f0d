"""Runs agents of the OpenAI Agents SDK in a step, with models, tools and handoffs that record their
work in its journal.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    StreamEvent,
    Tool,
    TResponseInputItem,
    UserError,
    handoff,
)
from agents.models.interface import Model
from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData
from agents.sandbox import SandboxAgent

from stepwell_client import Effect, Failure, JournalError, NeedsAnswer, Release, Retry
from stepwell_client.errors import LeaseLost
from stepwell_client.internal import Reconcile, journaled_step
from stepwell_frameworks.openai_agents.local_tools import hosted_tool, local_tool, with_options
from stepwell_frameworks.openai_agents.step_model import AGENT, StepProvider, step_model
from stepwell_frameworks.openai_agents.step_session import step_session
from stepwell_frameworks.openai_agents.step_tools import free_tool, step_tool

ContextT = TypeVar("ContextT")
ToolT = TypeVar("ToolT", bound=Tool)
ResultT = TypeVar("ResultT", RunResult, RunResultStreaming)
Input = str | list[TResponseInputItem] | RunState[Any]


class StepwellRunner:
    """Runs agents like `agents.Runner`, and records their work in the running step's journal.

    Tools that need a person's approval become questions (`ctx.ask`), also in agents after a
    handoff. Options are those of `Runner`. A session among them is wrapped in a StepwellSession
    meanwhile.
    """

    @staticmethod
    async def run(
        starting_agent: Agent[Any],
        input: Input,  # noqa: A002 - the name is the SDK's
        **options: Any,
    ) -> RunResult:
        """Run an agent to its end; see `agents.Runner.run`."""
        agent, options = _prepared(starting_agent, options)
        with _reasons_of_tools():
            return _whole(await Runner.run(agent, input, **options))

    @staticmethod
    def run_sync(
        starting_agent: Agent[Any],
        input: Input,  # noqa: A002 - the name is the SDK's
        **options: Any,
    ) -> RunResult:
        """Run an agent to its end, in a step that runs in a thread; see `agents.Runner.run_sync`."""
        agent, options = _prepared(starting_agent, options)
        with _reasons_of_tools():
            return _whole(Runner.run_sync(agent, input, **options))

    @staticmethod
    def run_streamed(
        starting_agent: Agent[Any],
        input: Input,  # noqa: A002 - the name is the SDK's
        **options: Any,
    ) -> RunResultStreaming:
        """Start an agent whose text is also streamed to the run's followers; see `agents.Runner.run_streamed`."""
        agent, options = _prepared(starting_agent, options)
        result = Runner.run_streamed(agent, input, **options)
        events = result.stream_events

        async def stream_events() -> AsyncIterator[StreamEvent]:
            async for event in events():
                yield event
            _whole(result)

        vars(result)["stream_events"] = stream_events
        return result


def _whole(result: ResultT) -> ResultT:
    """Return a result. Raises JournalError if a step's run stopped for an approval that no question was asked for."""
    if result.interruptions and journaled_step() is not None:
        waiting = ", ".join(str(one.name) for one in result.interruptions)
        raise JournalError(
            f"the run stopped for approvals that can't be asked for in a step: {waiting}"
        )
    return result


@contextmanager
def _reasons_of_tools() -> Generator[None]:
    """Raise the exception that a tool or its call raised for the step, instead of the SDK's error about the tool."""
    try:
        yield
    except UserError as error:
        if isinstance(error.__cause__, Failure | JournalError | LeaseLost | NeedsAnswer | Release):
            raise error.__cause__ from None
        raise


def _prepared(agent: Agent[Any], options: dict[str, Any]) -> tuple[Agent[Any], dict[str, Any]]:
    """Return the agent and the options of a run; in a step, durable ones."""
    step = journaled_step()
    if step is None:
        return agent, options
    changed = {**options, "run_config": _durable_config(options.get("run_config"))}
    if options.get("session") is not None:
        changed["session"] = step_session(step, options["session"])
    return durable(agent), changed


def _durable_config(given: RunConfig | Mapping[str, Any] | None) -> RunConfig:
    config = given if isinstance(given, RunConfig) else RunConfig(**(given or {}))
    if isinstance(config.model_provider, StepProvider):
        return config
    return replace(
        config,
        model=step_model(config.model) if isinstance(config.model, Model) else config.model,
        model_provider=StepProvider(config.model_provider),
        call_model_input_filter=_naming(config.call_model_input_filter),
    )


def _naming(given: CallModelInputFilter | None) -> CallModelInputFilter:
    """Return a filter that names the requesting agent to the model, and otherwise is the given filter."""

    def name_agent(data: CallModelData[Any]) -> Awaitable[ModelInputData] | ModelInputData:
        AGENT.set(data.agent.name)
        return data.model_data if given is None else given(data)

    return name_agent


def durable(agent: Agent[ContextT]) -> Agent[ContextT]:
    """Return an agent whose requests and calls, and those of its handoffs, are recorded in the running step.

    StepwellRunner does that for its agent. An agent that is another agent's tool must be made
    durable first: `durable(reader).as_tool(…)`.
    """
    return _durable(agent, {})


Made = dict[int, tuple[Agent[Any], Agent[Any]]]
"""Agents and their durable copies, by identity of both, so that a handoff back finds the same agent."""


def _durable(agent: Agent[Any], made: Made) -> Agent[Any]:
    if isinstance(agent, SandboxAgent):
        raise JournalError(
            f"agent {agent.name!r} is a sandbox agent, and its sandbox would not be that of an earlier attempt: "
            "run it by the SDK's Runner, within ctx.call"
        )
    if id(agent) not in made:
        changes: dict[str, Any] = {
            "tools": [_durable_tool(tool, agent) for tool in agent.tools],
            "handoffs": [_durable_handoff(one, made) for one in agent.handoffs],
        }
        if isinstance(agent.model, Model):
            changes["model"] = step_model(agent.model)
        clone = agent.clone(**changes)
        clone.__class__ = _durable_class(type(agent))
        made[id(agent)] = made[id(clone)] = agent, clone
    return made[id(agent)][1]


class _DurableAgent(Agent[Any]):
    """An agent whose MCP tools, and runs as a tool, are recorded."""

    async def get_mcp_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        tools = await super().get_mcp_tools(run_context)
        return [step_tool(tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        tools = await super().get_all_tools(run_context)
        return tools if journaled_step() is None else [hosted_tool(one, self.name) for one in tools]

    def as_tool(self, *arguments: Any, **named: Any) -> FunctionTool:
        if named.get("run_config") is not None:
            named["run_config"] = _durable_config(named["run_config"])
        return super().as_tool(*arguments, **named)


@cache
def _durable_class(kind: type[Agent[Any]]) -> type[Agent[Any]]:
    if issubclass(kind, _DurableAgent):
        return kind
    return type(kind.__name__, (_DurableAgent, kind), {"__module__": kind.__module__})


def _durable_tool(tool: Tool, agent: Agent[Any]) -> Tool:
    if not isinstance(tool, FunctionTool):
        return local_tool(tool, agent.name)
    # Nothing public tells which agent a tool runs; without this attribute the agent isn't checked.
    inner = getattr(tool, "_agent_instance", None)
    if inner is not None and not isinstance(inner, _DurableAgent):
        raise UserError(
            f"agent {agent.name!r} has agent {inner.name!r} as its tool {tool.name!r}: calls of that agent would not "
            f"be kept; make the tool with durable(…).as_tool(…)"
        )
    return step_tool(tool)


def _durable_handoff(given: Agent[Any] | Handoff[Any, Any], made: Made) -> Handoff[Any, Any]:
    found = given if isinstance(given, Handoff) else handoff(given)

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        return _durable(await found.on_invoke_handoff(context, arguments), made)

    changed = copy.copy(found)
    changed.on_invoke_handoff = invoke
    return changed


class CallOptions(TypedDict, total=False):
    """The options of `ctx.call` for a tool's calls."""

    effect: Effect
    retry: Retry | None
    reconcile: Reconcile | None


@overload
def as_call(tool: ToolT, **options: Unpack[CallOptions]) -> ToolT: ...
@overload
def as_call(**options: Unpack[CallOptions]) -> Callable[[ToolT], ToolT]: ...
def as_call(
    tool: ToolT | None = None, **options: Unpack[CallOptions]
) -> ToolT | Callable[[ToolT], ToolT]:
    """Set the `ctx.call` options `effect`, `retry` and `reconcile` of a tool.

    Used as a decorator, `@as_call(effect=Effect.AT_MOST_ONCE)` above `@function_tool`, or with a
    tool, of which it returns a changed copy.
    """

    def change(given: ToolT) -> ToolT:
        if isinstance(given, FunctionTool):
            return cast("ToolT", step_tool(given, options))
        return with_options(given, options)

    return change if tool is None else change(tool)


def not_kept(tool: ToolT) -> ToolT:
    """Return a tool whose calls aren't recorded, so that it runs in each attempt."""
    if isinstance(tool, FunctionTool):
        return cast("ToolT", free_tool(tool))
    return with_options(tool, None)
