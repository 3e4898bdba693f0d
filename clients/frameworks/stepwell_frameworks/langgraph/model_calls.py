"""Makes invocations of models, and of other runnables, calls of a step, with digests of what they ask."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from types import new_class
from typing import Any, ClassVar, TypeVar, cast, overload

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableLambda

from stepwell_client.internal import journaled_step
from stepwell_frameworks.langgraph.node_calls import kept, kept_sync

_EACH_RUN = {"id", "response_metadata", "usage_metadata"}
"""Fields of messages that differ in each attempt, or don't belong to the request."""

M = TypeVar("M", bound=BaseChatModel)


class _JournaledModel(BaseChatModel):
    """A chat model whose invocations are calls of the running step; otherwise unchanged."""

    journal_name: ClassVar[str] = ""

    def invoke(self, *arguments: Any, **options: Any) -> AIMessage:
        return _once_sync(self.journal_name, super().invoke, arguments, options)

    async def ainvoke(self, *arguments: Any, **options: Any) -> AIMessage:
        return await _once(self.journal_name, super().ainvoke, arguments, options)

    def stream(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        """Yield the whole answer as one chunk, because it is kept before it is used."""
        if journaled_step() is None:
            yield from super().stream(*arguments, **options)
        else:
            yield self.invoke(*arguments, **options)

    async def astream(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield the whole answer as one chunk, because it is kept before it is used."""
        if journaled_step() is not None:
            yield await self.ainvoke(*arguments, **options)
            return
        async for chunk in super().astream(*arguments, **options):
            yield chunk


@cache
def _model_class(kind: type[BaseChatModel], name: str) -> type[BaseChatModel]:
    """Return a model's class with journaled invocations. It is named as before, so all else finds the model's own."""
    fields = {"__module__": kind.__module__, "journal_name": name}
    return new_class(
        kind.__name__, (_JournaledModel, kind), exec_body=lambda made: made.update(fields)
    )


@overload
def journaled(runnable: M, name: str) -> M: ...
@overload
def journaled(runnable: Runnable[Any, Any], name: str) -> Runnable[Any, Any]: ...
def journaled(runnable: Runnable[Any, Any], name: str) -> Runnable[Any, Any]:
    """Make every invocation of a model, or another runnable, a call of the running step.

    A chat model stays a chat model: tools may be bound to it (`bind_tools`), it may have structured
    output, and agents take it. The next attempt gets the recorded values, and the usage of a
    model's answers is counted. Values are serialized as LangGraph does. In a step an answer comes
    in one piece also from `stream`.
    """
    if isinstance(runnable, _JournaledModel):
        return runnable
    if isinstance(runnable, BaseChatModel):
        model = copy.copy(runnable)
        object.__setattr__(model, "__class__", _model_class(type(runnable), name))
        return model
    if isinstance(runnable, RunnableBinding) and isinstance(runnable.bound, BaseChatModel):
        return runnable.model_copy(update={"bound": journaled(runnable.bound, name)})

    async def ainvoke(given: Any, config: RunnableConfig) -> Any:
        return await _once(name, runnable.ainvoke, (given, config), {})

    def invoke(given: Any, config: RunnableConfig) -> Any:
        return _once_sync(name, runnable.invoke, (given, config), {})

    return RunnableLambda(invoke, afunc=ainvoke, name=name)


def _once_sync(name: str, ask: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    step = journaled_step()
    if step is None:
        return ask(*arguments, **options)
    asked = _asked(arguments, options)
    return kept_sync(step, name, lambda: ask(*arguments, **options), asked)


async def _once(name: str, ask: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    step = journaled_step()
    if step is None:
        return await ask(*arguments, **options)
    asked = _asked(arguments, options)
    return await kept(step, name, lambda: ask(*arguments, **options), asked)


def _asked(arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return the form of a request: its messages, and its options, such as tools. Configs aren't sent to the model."""
    sent = {name: one for name, one in options.items() if name not in ("input", "config")}
    given = _form(arguments[0] if arguments else options["input"])
    return [given, _form(sent)] if sent else given


def _form(value: Any) -> Any:
    """Return the JSON-like form of a runnable's input, without parts that differ in each attempt."""
    if isinstance(value, PromptValue):
        return _form(value.to_messages())
    if isinstance(value, BaseMessage):
        return value.model_dump(mode="json", exclude=_EACH_RUN)
    if isinstance(value, Mapping):
        return {str(key): _form(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_form(one) for one in cast("Sequence[Any]", value)]
    if callable(value):  # A class of structured output, for example.
        return getattr(value, "__qualname__", type(value).__qualname__)
    return value
