"""Makes the SDK's tools that run on this machine, other than functions, calls of a step: shells,
patches and custom tools.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from agents import (
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    HostedMCPTool,
    LocalShellTool,
    MCPToolApprovalRequest,
    RunContextWrapper,
    ShellTool,
    Tool,
)
from agents.editor import ApplyPatchResult
from agents.items import ToolApprovalItem
from agents.tool import ShellResult
from pydantic import TypeAdapter

from stepwell_client import JournalError
from stepwell_client.internal import NAME_CHARS_MAX, journaled_step
from stepwell_frameworks.approvals import UNCHANGEABLE, ask_approval
from stepwell_frameworks.home_loop import called, on_home_loop
from stepwell_frameworks.openai_agents.json_forms import jsonable
from stepwell_frameworks.openai_agents.step_tools import Options, parsed_arguments

_OPTIONS = "_stepwell_options"
"""The attribute of a tool for what `as_call` or `not_kept` set."""
_SHELL = TypeAdapter[Any](ShellResult | str)
_PATCH = TypeAdapter[Any](ApplyPatchResult | str | None)
_CUSTOM = TypeAdapter[Any](Any)
ToolT = TypeVar("ToolT")


def with_options(tool: ToolT, options: Options | None) -> ToolT:
    """Return a tool with the arguments of `ctx.call` for its calls; None: they aren't recorded."""
    made = copy.copy(tool)
    setattr(made, _OPTIONS, options)
    return made


def local_tool(tool: Tool, agent: str) -> Tool:
    """Return a tool of an agent whose calls are calls of the running step, and which asks for approvals.

    Raises JournalError for a tool whose calls can't be.
    """
    options: Options | None = getattr(tool, _OPTIONS, {})
    made: Any = copy.copy(tool)
    if isinstance(tool, ComputerTool) and options is not None:
        raise JournalError(
            f"agent {agent!r} has a computer, whose screen would not be that of an earlier attempt: "
            "not_kept(tool) lets it run in each attempt"
        )
    if isinstance(tool, ShellTool | ApplyPatchTool | CustomTool) and tool.on_approval is None:
        made.on_approval = _asking(agent, tool.name)
    if options is None:
        return made
    calls = _Calls(agent, tool.name, options)
    match tool:
        case ShellTool(executor=run) if run is not None:
            made.executor = calls.wrap(run, _command, _SHELL)
        case LocalShellTool(executor=run):
            made.executor = calls.wrap(run, _command, None)
        case CustomTool(on_invoke_tool=invoke):
            made.on_invoke_tool = calls.wrap(invoke, _text, _CUSTOM)
        case ApplyPatchTool(editor=editor):
            changes = ("create_file", "update_file", "delete_file")
            wrapped = {one: calls.wrap(getattr(editor, one), _patch, _PATCH) for one in changes}
            made.editor = SimpleNamespace(**wrapped)
        case _:
            return tool
    return made


def _command(request: Any) -> tuple[object, str]:
    return request.data.action, request.data.call_id


def _text(context: Any, text: str) -> tuple[object, str]:
    return text, context.tool_call_id


def _patch(change: Any) -> tuple[object, str]:
    return [change.type, change.path, change.diff, change.move_to], ""


def hosted_tool(tool: Tool, agent: str) -> Tool:
    """Return a tool that asks a person for the approvals that a hosted MCP server wants."""
    if not isinstance(tool, HostedMCPTool) or tool.on_approval_request is not None:
        return tool

    async def ask(request: MCPToolApprovalRequest) -> Any:
        data = request.data
        name = f"{data.server_label}.{data.name}"
        return await _ask(agent, name, parsed_arguments(data.arguments) or {"": data.arguments})

    made = copy.copy(tool)
    made.on_approval_request = ask
    return made


class _Calls:
    """The calls of one tool of an agent."""

    def __init__(self, agent: str, tool: str, options: Options) -> None:
        self._name = f"{agent}.tool.{tool}"[-NAME_CHARS_MAX:]
        self._options = options

    def wrap(
        self,
        run: Callable[..., object],
        asked_by: Callable[..., tuple[object, str]],
        result: TypeAdapter[Any] | None,
    ) -> Callable[..., Awaitable[Any]]:
        """Return a function that runs the tool once for all attempts.

        `asked_by` returns what a call asks for, and its id. Without `result`, the type of what the
        tool returns, its errors end the run; otherwise the SDK gives their texts to the model, so
        they are recorded.
        """

        async def execute(*given: Any) -> Any:
            step = journaled_step()
            if step is None:
                return await called(partial(run, *given))
            home = asyncio.get_running_loop()

            async def operation(_: object, __: str) -> object:
                try:
                    value = await on_home_loop(home, lambda: called(partial(run, *given)))
                except Exception as error:
                    if result is None:
                        raise
                    return {"error": str(error) or type(error).__name__}
                return {"output": jsonable(value)}

            asked, call_id = asked_by(*given)
            kept = await step.call(
                self._name, operation, jsonable(asked), call_id, as_=object, **self._options
            )
            found = cast("Options", kept if isinstance(kept, dict) else {})
            if "error" in found:
                raise RuntimeError(found["error"])
            output = found.get("output", kept)
            return output if result is None else result.validate_python(output)

        return execute


def _asking(agent: str, tool: str) -> Callable[[RunContextWrapper[Any], ToolApprovalItem], Any]:
    """Return a callback that asks a person about a tool's call; outside of a step it decides nothing."""

    async def ask(_: RunContextWrapper[Any], item: ToolApprovalItem) -> Any:
        call: dict[str, Any] = jsonable(item.raw_item)
        asked = call.get("action") or call.get("operation") or {"input": call.get("input")}
        return await _ask(agent, tool, {k: v for k, v in asked.items() if v is not None})

    return ask


async def _ask(agent: str, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    step = journaled_step()
    if step is None:
        return None
    with step.scope(f"{agent}.ask"[-NAME_CHARS_MAX:]):
        answer = await ask_approval(step, tool, arguments, UNCHANGEABLE)
    return {"approve": answer.approved, "reason": answer.message}
