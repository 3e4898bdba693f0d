"""Makes the operations of a pydantic-ai agent calls of a step, with names, digests of their arguments, and usage."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, cast

from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    CallableOperationBackend,
    CallToolResult,
    DurabilityCodec,
    DurableOperationId,
    JournalOperationNamer,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetValidateToolArgumentsId,
    record_durable_unit,
)
from pydantic_ai.messages import (
    MULTI_MODAL_CONTENT_TYPES,
    ModelResponse,
    TextContent,
    ToolReturn,
    tool_return_ta,
)
from pydantic_ai.toolsets import ToolsetTool
from pydantic_core import from_json

from stepwell_client import NonRetryable, Retry, StepContext
from stepwell_client.internal import (
    INVALID_RESULT,
    NAME_CHARS_MAX,
    digest_of,
    in_order,
    journaled_step,
)
from stepwell_frameworks.home_loop import on_home_loop
from stepwell_frameworks.tool_options import Options, tool_options

_EACH_RUN = frozenset({"timestamp", "run_id", "conversation_id"})
"""Fields of pydantic-ai's records that differ in each attempt."""
_GENERATED_ID = "pyd_ai_"
"""The prefix of tool call ids that pydantic-ai generates."""


class StepBackend(CallableOperationBackend[Options]):
    """Runs each operation of an agent as a call of the running step."""

    def __init__(self, agent_name: str, retry: Retry | None) -> None:
        self._agent_name = agent_name
        model: Options = {} if retry is None else {"retry": retry}
        super().__init__(
            namer=JournalOperationNamer(agent_name),
            config=RoleBasedOperationConfig[Options](
                model=model, event={}, capability={}, tool={}, resolve_tool=_tool_options
            ),
        )

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: Options,
    ) -> object:
        """Return the operation's result, from now or from an earlier attempt."""
        step = journaled_step()
        if step is None:
            return await body()
        home = asyncio.get_running_loop()
        executed = False

        async def operation(_: str) -> object:
            nonlocal executed
            executed = True
            payload = await on_home_loop(home, body)
            if isinstance(operation_id, ModelRequestId):
                _count_usage(step, payload)
            return payload

        call, digest = self._identity(operation_id, name, cache_key)
        payload = await step.call(call, operation, digest, as_=object, **config)
        record_durable_unit(executed=executed)
        return payload

    def _identity(
        self, operation_id: DurableOperationId, name: str, cache_key: tuple[object, ...]
    ) -> tuple[str, str]:
        """Return a call's name, and the digest of its arguments, by which the next attempt finds it."""
        asked = [one for one in cache_key if not isinstance(one, RunContext)]
        match operation_id:
            case ModelRequestId():
                name = f"{self._agent_name}.model"
            case ToolsetCallToolId() | ToolsetValidateToolArgumentsId():
                tool, arguments = cache_key[:2]
                verb = "tool" if isinstance(operation_id, ToolsetCallToolId) else "validate"
                name = f"{self._agent_name}.{verb}.{tool}"
                asked = [arguments, *_tool_call(cache_key)]
            case _:
                pass
        return name[:NAME_CHARS_MAX], digest_of(_form(asked))


class StepCodec(DurabilityCodec):
    """Stores values as JSON; a result that a person gave for a tool call is used unchanged."""

    def dump(self, tp: Any, value: Any) -> Any:
        if tp is CallToolResult and hasattr(value, "result"):
            value = replace(value, result=_as_read(value.result))
        return JSON_CODEC.dump(tp, value)

    def load(self, tp: Any, payload: Any) -> Any:
        try:
            return JSON_CODEC.load(tp, payload)
        except ValueError:
            if tp is not CallToolResult:
                raise
            return payload


_CONTENTS: Any = (*MULTI_MODAL_CONTENT_TYPES, TextContent)
"""Values that pydantic-ai gives to models as what they are."""


def _as_read(result: Any) -> Any:
    """Return a tool's result as the JSON that its model reads, with pydantic-ai's files as they are."""
    if isinstance(result, ToolReturn):
        made = cast("ToolReturn[Any]", result)
        return replace(made, return_value=_as_read(made.return_value))
    if result is None or isinstance(result, _CONTENTS):
        return result
    given: Options = cast("Options", result) if isinstance(result, dict) else {}
    items = cast("Iterable[Any]", result) if isinstance(result, list | tuple) else given.values()
    if any(isinstance(one, _CONTENTS) for one in items):
        return {k: _as_read(v) for k, v in given.items()} or [_as_read(one) for one in items]
    form: Any = from_json(tool_return_ta.dump_json(result, by_alias=True))
    return "null" if form is None else form  # The text of a number that is none.


def not_kept(error: Exception) -> NonRetryable:
    """Return the failure of an operation whose result has no JSON form."""
    return NonRetryable(
        f"what the agent's tool or model returned can't be kept: {error}", kind=INVALID_RESULT
    )


def _tool_options(
    operation_id: DurableOperationId, tool: object | None, tool_name: str
) -> Options | Literal[False]:
    metadata = tool.tool_def.metadata if isinstance(tool, ToolsetTool) else None
    options = tool_options(tool_name, metadata)
    is_validation = isinstance(operation_id, ToolsetValidateToolArgumentsId)
    return {} if options and is_validation else options


def _count_usage(step: StepContext, payload: object) -> None:
    response = cast("ModelResponse", JSON_CODEC.load(ModelResponse, payload))
    try:
        cost = round(response.cost().total_price * 1_000_000)
    except (LookupError, ValueError, AssertionError):
        cost = 0  # A model without a known price.
    step.usage(
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        cost_micros=cost,
        model=response.model_name or "",
    )


def _tool_call(cache_key: tuple[object, ...]) -> tuple[str | None, bool]:
    """Return the id of a tool call, and whether a person has approved it."""
    for one in cache_key:
        if isinstance(one, RunContext):
            context = cast("RunContext[object]", one)
            return context.tool_call_id, context.tool_call_approved
    return None, False


def _form(value: Any) -> Any:
    """Return a value as JSON that is equal in each attempt."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Mapping):
        given = cast("Mapping[object, object]", value)
        return {str(key): _form(one) for key, one in given.items()}
    if isinstance(value, list | tuple):
        return [_form(one) for one in cast("list[object]", value)]
    if isinstance(value, set | frozenset):
        return in_order(value, [_form(one) for one in cast("set[object]", value)])
    if is_dataclass(value) and not isinstance(value, type):
        return _record_form(value)
    try:
        return in_order(value, JSON_CODEC.dump(Any, value))
    except (TypeError, ValueError):
        return type(value).__qualname__


def _record_form(record: Any) -> dict[str, Any]:
    theirs = type(record).__module__.partition(".")[0] == "pydantic_ai"
    form: dict[str, Any] = {}
    for name in (field.name for field in fields(record) if field.compare):
        value = getattr(record, name)
        if theirs and name in _EACH_RUN:
            continue
        if theirs and name == "tool_call_id" and str(value).startswith(_GENERATED_ID):
            value = ""
        form[name] = _form(value)
    return form
