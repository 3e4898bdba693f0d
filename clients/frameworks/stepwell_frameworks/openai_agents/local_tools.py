"""Makes the SDK's tools that run on this machine, other than functions, calls of a step: shells,
patches and custom tools.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from agents import (
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    HostedMCPTool,
    LocalShellCommandRequest,
    LocalShellTool,
    MCPToolApprovalRequest,
    RunContextWrapper,
    ShellCommandRequest,
    ShellTool,
    Tool,
)
from agents.editor import ApplyPatchEditor, ApplyPatchOperation, ApplyPatchResult
from agents.items import ToolApprovalItem
from agents.tool import ShellResult
from agents.tool_context import ToolContext
from pydantic import TypeAdapter

from stepwell_client import JournalError
from stepwell_client.internal import NAME_CHARS_MAX, journaled_step
from stepwell_frameworks.approvals import UNCHANGEABLE, ask_approval
from stepwell_frameworks.home_loop import called, on_home_loop
from stepwell_frameworks.openai_agents.json_forms import jsonable
from stepwell_frameworks.openai_agents.step_tools import Options, parsed_arguments

_OPTIONS = "_stepwell_options"
"""The attribute of a tool for what `as_call` or `not_kept` set."""
ToolT = TypeVar("ToolT")
Invoke = Callable[[], object]


class ToolFailed(Exception):
    """A tool failed; its text, which the SDK gives to the model, is that of the tool's own error."""


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
            made.executor = calls.executor(run, TypeAdapter(ShellResult | str))
        case LocalShellTool(executor=run):
            made.executor = calls.executor(run)
        case CustomTool(on_invoke_tool=invoke):
            made.on_invoke_tool = calls.invoker(invoke)
        case ApplyPatchTool(editor=editor):
            made.editor = _StepEditor(editor, calls)
        case _:
            return tool
    return made


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

    def executor(
        self, run: Callable[[Any], object], result: TypeAdapter[Any] | None = None
    ) -> Callable[[ShellCommandRequest | LocalShellCommandRequest], object]:
        async def execute(asked: ShellCommandRequest | LocalShellCommandRequest) -> object:
            return await self.call(
                lambda: run(asked), asked.data.action, asked.data.call_id, result
            )

        return execute

    def invoker(
        self, invoke: Callable[[ToolContext[Any], str], object]
    ) -> Callable[[ToolContext[Any], str], object]:
        async def execute(context: ToolContext[Any], given: str) -> object:
            return await self.call(lambda: invoke(context, given), given, context.tool_call_id)

        return execute

    async def call(
        self, invoke: Invoke, asked: object, call_id: str, result: TypeAdapter[Any] | None = None
    ) -> Any:
        """Invoke the tool once for all attempts. Its error is recorded, as the model reads it as the tool's answer."""
        step = journaled_step()
        if step is None:
            return await called(invoke)
        home = asyncio.get_running_loop()

        async def operation(_: object, __: str) -> object:
            try:
                return {"output": jsonable(await on_home_loop(home, lambda: called(invoke)))}
            except Exception as error:  # noqa: BLE001 - the SDK gives each to the model
                return {"error": str(error) or type(error).__name__}

        arguments = (jsonable(asked), call_id)
        kept = await step.call(self._name, operation, *arguments, as_=object, **self._options)
        found = cast("Mapping[str, Any]", kept if isinstance(kept, dict) else {"output": kept})
        if "error" in found:
            raise ToolFailed(found["error"])
        output = found.get("output", kept)
        return output if result is None else result.validate_python(output)


class _StepEditor:
    """An editor whose operations are calls of the running step."""

    def __init__(self, editor: ApplyPatchEditor, calls: _Calls) -> None:
        self._editor = editor
        self._calls = calls

    async def create_file(self, operation: ApplyPatchOperation) -> Any:
        return await self._change(self._editor.create_file, operation)

    async def update_file(self, operation: ApplyPatchOperation) -> Any:
        return await self._change(self._editor.update_file, operation)

    async def delete_file(self, operation: ApplyPatchOperation) -> Any:
        return await self._change(self._editor.delete_file, operation)

    async def _change(
        self, change: Callable[[ApplyPatchOperation], object], operation: ApplyPatchOperation
    ) -> Any:
        asked = [operation.type, operation.path, operation.diff, operation.move_to]
        result = TypeAdapter[Any](ApplyPatchResult | str | None)
        return await self._calls.call(lambda: change(operation), asked, "", result)


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
