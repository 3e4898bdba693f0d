"""Makes tools of the OpenAI Agents SDK calls of a step, and asks a person about those that need approval."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from agents import (
    FunctionTool,
    RunContextWrapper,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
)
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext

from stepwell_client import StepContext
from stepwell_client.internal import NAME_CHARS_MAX, journaled_step
from stepwell_frameworks.approvals import ask_approval
from stepwell_frameworks.home_loop import on_home_loop
from stepwell_frameworks.openai_agents.json_forms import jsonable

REJECTED = "Tool execution was not approved."
"""The answer to the model if a person rejects a call without a text."""

_FORM, _TEXT = "stepwell.json", "stepwell.text"
"""The fields of a recorded output whose JSON isn't what the model reads."""
_STRUCTURED = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
"""Outputs that the SDK sends as JSON."""

Options = Mapping[str, Any]


class StepInvoker:
    """Invokes a tool as a call of the running step; outside of a step, as the SDK does."""

    def __init__(self, tool: FunctionTool, options: Options | None) -> None:
        self.tool = tool
        """The original tool."""
        self.options = options
        """Arguments of `ctx.call`. None: calls aren't recorded, and the tool runs in each attempt."""

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        step = journaled_step()
        if step is None:
            return await self._invoke(context, arguments)
        parsed = parsed_arguments(arguments)
        agent = context.agent.name if context.agent is not None else "agent"
        if await _needs_approval(self.tool, context, parsed, context.tool_call_id):
            with step.scope(f"{agent}.ask"[-NAME_CHARS_MAX:]):
                answer = await ask_approval(
                    step, self.tool.name, {"": arguments} if parsed is None else parsed
                )
            if not answer.approved:
                return answer.message or REJECTED
            if answer.arguments is not None:
                parsed, arguments = answer.arguments, json.dumps(answer.arguments)
                context.tool_arguments = arguments
                if context.tool_call is not None:  # The model reads it with the call's output.
                    context.tool_call.arguments = arguments
        if self.options is None:
            return await self._invoke(context, arguments)
        return await self._call(step, agent, context, arguments, parsed)

    async def _call(
        self,
        step: StepContext,
        agent: str,
        context: ToolContext[Any],
        arguments: str,
        parsed: Mapping[str, Any] | None,
    ) -> Any:
        home = asyncio.get_running_loop()

        async def operation(_: object, __: str) -> object:
            return _kept(await on_home_loop(home, lambda: self._invoke(context, arguments)))

        name = f"{agent}.tool.{self.tool.name}"[-NAME_CHARS_MAX:]
        asked = arguments if parsed is None else parsed
        options = self.options or {}
        kept = await step.call(name, operation, asked, context.tool_call_id, as_=object, **options)
        return _shown(kept)

    async def _invoke(self, context: ToolContext[Any], arguments: str) -> Any:
        return await invoke_function_tool(
            function_tool=self.tool, context=context, arguments=arguments
        )


def step_tool(tool: FunctionTool, options: Options | None = None) -> FunctionTool:
    """Return a tool whose calls are calls of the step; the default options are the tool's own."""
    given = tool.on_invoke_tool
    if isinstance(given, StepInvoker):
        if options is None:
            return tool
        tool = given.tool
    return _with_invoker(tool, StepInvoker(tool, options or {}))


def free_tool(tool: FunctionTool) -> FunctionTool:
    """Return a tool whose calls aren't recorded."""
    given = tool.on_invoke_tool
    tool = given.tool if isinstance(given, StepInvoker) else tool
    return _with_invoker(tool, StepInvoker(tool, None))


def _with_invoker(tool: FunctionTool, invoker: StepInvoker) -> FunctionTool:
    async def needs_approval(
        context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        # In a step the question is asked when the tool is invoked.
        if journaled_step() is not None:
            return False
        return await _needs_approval(tool, context, arguments, call_id)

    made = copy.copy(tool)
    made.on_invoke_tool = invoker
    # The time is counted within the call, without the time that a person takes.
    made.timeout_seconds = None
    if tool.needs_approval is not False:
        made.needs_approval = needs_approval
    return made


async def _needs_approval(
    tool: FunctionTool,
    context: RunContextWrapper[Any],
    arguments: Mapping[str, Any] | None,
    call_id: str,
) -> bool:
    policy = tool.needs_approval
    if not callable(policy):
        return policy
    if arguments is None:
        return True
    # The policy would see other arguments than a decorated function, which gets its defaults.
    if hasattr(tool, "__wrapped__") and not set(tool.params_json_schema["properties"]) <= set(
        arguments
    ):
        return True
    needed = policy(context, dict(arguments), call_id)
    return bool(await needed if inspect.isawaitable(needed) else needed)


def parsed_arguments(arguments: str) -> Mapping[str, Any] | None:
    """Return the arguments that a model gave, or None if they are no JSON object."""
    try:
        parsed = json.loads(arguments or "{}")
    except ValueError:
        return None
    return cast("Mapping[str, Any]", parsed) if isinstance(parsed, Mapping) else None


class _Dict(dict[str, Any]):
    """The JSON of a value, which the model reads as the text of the value itself."""

    text = ""

    def __str__(self) -> str:
        return self.text


class _List(list[Any]):
    """The same for a list."""

    text = ""

    def __str__(self) -> str:
        return self.text


def _kept(output: Any) -> Any:
    """Return a tool's output for the journal: its JSON, its text, or both where the model reads the text."""
    items = list(cast("Iterable[Any]", output)) if isinstance(output, list | tuple) else [output]
    text = str(cast("object", output))
    try:
        form = jsonable(output)
    except (ValueError, RecursionError):
        return text
    if str(form) == text or (items and all(isinstance(one, _STRUCTURED) for one in items)):
        return form
    has_items = isinstance(form, dict | list)
    return {_FORM: cast("object", form), _TEXT: text} if has_items else text


def _shown(kept: Any) -> Any:
    """Return a recorded output as the SDK gets it in each attempt."""
    fields: Options = cast("Options", kept) if isinstance(kept, dict) else {}
    if set(fields) != {_FORM, _TEXT}:
        return cast("object", kept)
    kind = _Dict if isinstance(fields[_FORM], dict) else _List
    made = kind(fields[_FORM])
    made.text = fields[_TEXT]
    return made
