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

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AIMessage:  # noqa: A002 - the name is the framework's
        step = journaled_step()
        if step is None:
            return super().invoke(input, config, **options)
        ask = super().invoke
        asked = _asked(input, options)
        return kept_sync(step, self.journal_name, lambda: ask(input, config, **options), asked)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the name is the framework's
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AIMessage:
        step = journaled_step()
        if step is None:
            return await super().ainvoke(input, config, **options)
        ask = super().ainvoke
        asked = _asked(input, options)
        return await kept(step, self.journal_name, lambda: ask(input, config, **options), asked)

    def stream(
        self,
        input: Any,  # noqa: A002 - the name is the framework's
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Yield the whole answer as one chunk, because it is kept before it is used."""
        if journaled_step() is None:
            yield from super().stream(input, config, **options)
        else:
            yield self.invoke(input, config, **options)

    async def astream(
        self,
        input: Any,  # noqa: A002 - the name is the framework's
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Yield the whole answer as one chunk, because it is kept before it is used."""
        if journaled_step() is not None:
            yield await self.ainvoke(input, config, **options)
            return
        async for chunk in super().astream(input, config, **options):
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

    def invoke(given: Any, config: RunnableConfig) -> Any:
        step = journaled_step()
        if step is None:
            return runnable.invoke(given, config)
        return kept_sync(step, name, lambda: runnable.invoke(given, config), _form(given))

    async def ainvoke(given: Any, config: RunnableConfig) -> Any:
        step = journaled_step()
        if step is None:
            return await runnable.ainvoke(given, config)
        return await kept(step, name, lambda: runnable.ainvoke(given, config), _form(given))

    return RunnableLambda(invoke, afunc=ainvoke, name=name)


def _asked(given: Any, options: Mapping[str, Any]) -> Any:
    """Return the form of a request: its messages, and its options, such as tools."""
    return [_form(given), _form(options)] if options else _form(given)


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
