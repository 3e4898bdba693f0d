"""Registries: an orchestrator's functions, as an Agent or a plain mapping of names to functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stepwell_client import Agent

Registry = Agent | Mapping[str, Callable[..., Any]]
"""An Agent, or functions by name. In a mapping, `plan`, `reflect` and `synthesize` are the stages,
called with their context like an Agent's. Every other name is a task type, whose function is called
with the task's input, or with nothing if it takes nothing.
"""

_STAGES = ("plan", "reflect", "synthesize")
_CONTEXT = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_ONLY)
_INPUT = inspect.Parameter("value", inspect.Parameter.POSITIONAL_ONLY)


def agent_of(registry: Registry) -> Agent:
    """Return the registry as an Agent. Raises ValueError for other objects, and for a function that can't be called."""
    if isinstance(registry, Agent):
        return registry
    if not isinstance(registry, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
        raise ValueError(  # noqa: TRY004 - every argument that is at fault is a ValueError
            f"the registry is a {type(registry).__name__}: pass an Agent, or a mapping of names to functions"
        )
    agent = Agent("registry")
    for name, function in registry.items():
        if not callable(function):
            raise ValueError(f"registry[{name!r}] is no function")  # noqa: TRY004 - as above
        if name in _STAGES:
            getattr(agent, name)(function)
        else:
            agent.task(name)(_with_context(name, function))
    return agent


def one_of(*registries: Registry | None) -> Registry:
    """Return the one given registry. Raises ValueError for none or several."""
    given = [one for one in registries if one is not None]
    if len(given) != 1:
        raise ValueError("pass the functions once, as registry= or agent=")
    return given[0]


def _with_context(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as an Agent calls it: with the context before its own parameter, which may be missing."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # Some builtins have no signature.
        parameters = [_INPUT]
    needed = [one for one in parameters if one.default is one.empty]
    needed = [one for one in needed if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if len(needed) > 1 or any(one.kind is one.KEYWORD_ONLY for one in needed):
        raise ValueError(
            f"registry[{name!r}] needs {', '.join(one.name for one in needed)}; it may take the task's input alone"
        )
    own = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ][:1]

    if inspect.iscoroutinefunction(function):

        async def call_async(_: object, *arguments: Any) -> Any:
            return await function(*arguments)

        called: Callable[..., Any] = call_async
    else:

        def call(_: object, *arguments: Any) -> Any:
            return function(*arguments)

        called = call
    functools.update_wrapper(called, function)
    # An Agent reads the number of parameters, and the input's type, from here.
    own = [one.replace(kind=one.POSITIONAL_ONLY) for one in own]
    called.__signature__ = inspect.Signature([_CONTEXT, *own])
    return called


def registry_may_be_second(init: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__(self, goal, max_iterations, registry, …)` that also takes a registry as the second argument."""

    @functools.wraps(init)
    def call(*arguments: Any, **named: Any) -> None:
        if len(arguments) == 3 and isinstance(arguments[2], Agent | Mapping):
            if named.get("registry") is not None:
                raise ValueError("pass the functions once, as registry= or agent=")
            named["registry"] = arguments[2]
            arguments = arguments[:2]
        init(*arguments, **named)

    return call
