"""Makes model requests of the OpenAI Agents SDK calls of a step, with digests, usage and streaming."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

from agents import (
    AgentOutputSchemaBase,
    FunctionTool,
    Handoff,
    ModelBehaviorError,
    ModelResponse,
    ModelSettings,
    Tool,
    Usage,
)
from agents.items import TResponseStreamEvent
from agents.models.interface import Model, ModelProvider
from openai import BaseModel
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent
from pydantic import TypeAdapter

from stepwell_client import StepContext
from stepwell_client.internal import (
    NAME_CHARS_MAX,
    current_key,
    digest_of,
    journaled_step,
    on_loop,
    opened_calls,
)
from stepwell_frameworks.home_loop import on_home_loop
from stepwell_frameworks.openai_agents.json_forms import form, type_name

AGENT: ContextVar[str] = ContextVar("stepwell_openai_agent", default="agent")
"""The name of the agent that makes the requests in this task."""
_REQUEST = inspect.signature(Model.get_response)
_TRACED = frozenset({"self", "tracing"})
"""Parameters of a request that aren't sent to the model."""
_CACHE_KEY = "prompt_cache_key"
"""An argument that the SDK generates for each run."""
_USAGE: TypeAdapter[Usage] = TypeAdapter(Usage)


class StepModel:
    """A model whose requests are calls of the running step; otherwise unchanged."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # A copy under construction has no model yet.
            raise AttributeError(name)
        return getattr(self._model, name)

    async def get_response(self, *arguments: Any, **named: Any) -> ModelResponse:
        """Return the model's answer, from now or from an earlier attempt."""
        step = journaled_step()
        if step is None:
            return await self._model.get_response(*arguments, **named)

        async def ask() -> dict[str, Any]:
            response = await self._model.get_response(*arguments, **named)
            used = response.usage
            step.usage(
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                model=self._name,
            )
            return _kept_response(response)

        return _response(await self._call(step, ask, _asked("whole", arguments, named)))

    async def stream_response(
        self, *arguments: Any, **named: Any
    ) -> AsyncGenerator[TResponseStreamEvent]:
        """Yield the events of the model's answer as they come, and the last one once it is recorded.

        An answer from an earlier attempt is one event, the last.
        """
        stream = cast("Any", self._model.stream_response)
        step = journaled_step()
        if step is None:
            async with aclosing(stream(*arguments, **named)) as events:
                async for event in events:
                    yield event
            return
        shown: asyncio.Queue[TResponseStreamEvent | None] = asyncio.Queue()

        async def ask() -> dict[str, Any]:
            async with aclosing(stream(*arguments, **named)) as events:
                return await _last_of(step, events, shown, self._name)

        asked = _asked("stream", arguments, named)
        call = opened_calls(step).runtime.spawn(
            self._call(step, ask, asked), name="a model's stream"
        )
        call.add_done_callback(lambda _: shown.put_nowait(None))
        try:
            while (event := await shown.get()) is not None:
                yield event
            yield ResponseCompletedEvent.model_construct(**await call)
        finally:
            # Whoever leaves the stream wants neither the answer nor its failure.
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    @property
    def _name(self) -> str:
        name = getattr(self._model, "model", "")
        return name if isinstance(name, str) else ""

    async def _call(
        self, step: StepContext, ask: Callable[[], Awaitable[dict[str, Any]]], asked: str
    ) -> dict[str, Any]:
        home = asyncio.get_running_loop()
        key = ""

        async def operation(_: str, __: str) -> dict[str, Any]:
            nonlocal key
            key = current_key()
            return await on_home_loop(home, ask)

        name = f"{AGENT.get()}.model"[-NAME_CHARS_MAX:]
        try:
            return await step.call(name, operation, asked, self._name, as_=dict[str, Any])
        except (Exception, asyncio.CancelledError):
            # The SDK may repeat a request, also after a time-out; the repetition is another try of
            # this call.
            calls = opened_calls(step)
            await on_loop(step)(calls.again(key, name, asked, self._name))
            raise


Model.register(StepModel)


class StepProvider(ModelProvider):
    """A provider whose models' requests are calls of the running step."""

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        return step_model(self._provider.get_model(model_name))

    async def aclose(self) -> None:
        await self._provider.aclose()


def step_model(model: Model) -> Model:
    """Return a model whose requests are calls of the running step."""
    return model if isinstance(model, StepModel) else cast("Model", StepModel(model))


async def _last_of(
    step: StepContext,
    events: AsyncGenerator[TResponseStreamEvent],
    shown: asyncio.Queue[TResponseStreamEvent | None],
    model: str,
) -> dict[str, Any]:
    """Stream the events, and return the last one in its recorded form."""
    last: ResponseCompletedEvent | None = None
    async for event in events:
        if isinstance(event, ResponseCompletedEvent):
            last = event
            continue
        if isinstance(event, ResponseTextDeltaEvent):
            step.stream(event.delta)
        shown.put_nowait(event)
    if last is None:
        raise ModelBehaviorError("the model's stream ended without a response")
    used = last.response.usage
    step.usage(
        input_tokens=0 if used is None else used.input_tokens,
        output_tokens=0 if used is None else used.output_tokens,
        model=model or last.response.model,
    )
    return last.to_dict(mode="json", warnings=False)


def _kept_response(response: ModelResponse) -> dict[str, Any]:
    return {
        "output": [
            item.to_dict(mode="json", warnings=False) if isinstance(item, BaseModel) else item
            for item in cast("list[object]", response.output)
        ],
        "usage": _USAGE.dump_python(response.usage, mode="json"),
        "response_id": response.response_id,
        "request_id": response.request_id,
        "raw_usage": response.raw_usage,
    }


def _response(kept: Mapping[str, Any]) -> ModelResponse:
    # Constructed as openai's client does, which accepts more than its types.
    output = Response.model_construct(output=kept["output"]).output
    response = ModelResponse(
        output=[],
        usage=_USAGE.validate_python(kept["usage"]),
        response_id=kept["response_id"],
        request_id=kept["request_id"],
        raw_usage=kept["raw_usage"],
    )
    response.output = output
    return response


# The identity of a request, by which the next attempt finds the answer.


def _asked(how: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    bound = _REQUEST.bind(None, *arguments, **named).arguments
    forms = {name: _form(value) for name, value in bound.items() if name not in _TRACED}
    return digest_of(how, forms)


def _form(value: Any) -> Any:
    """Return JSON that identifies a value, equal in each attempt."""
    match value:
        case ModelSettings():
            extra = dict(value.extra_args or {})
            extra.pop(_CACHE_KEY, None)
            return _plain(replace(value, extra_args=extra or None))
        case FunctionTool():
            return [value.name, value.description, value.params_json_schema]
        case Handoff():
            handoff = cast("Handoff[Any, Any]", value)
            return [handoff.tool_name, handoff.tool_description, handoff.input_json_schema]
        case AgentOutputSchemaBase():
            return [value.name(), None if value.is_plain_text() else value.json_schema()]
        case list():
            return [_form(one) for one in cast("list[Tool | object]", value)]
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    return [type_name(value), form(value)] if hasattr(value, "__dict__") else form(value)
