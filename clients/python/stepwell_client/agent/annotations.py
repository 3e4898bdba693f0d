"""Resolves the type annotations of functions, also those written as strings."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from stepwell_client.errors import Misconfigured

_returns: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()


def resolved(function: Callable[..., object], annotation: Any) -> Any:
    """Return the type of a function's annotation. Raises NameError if it isn't known."""
    inner: Any = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    names: dict[str, Any] = {}
    if hasattr(inner, "__closure__"):
        names = dict(inspect.getclosurevars(inner).nonlocals)
    holder = SimpleNamespace(__annotations__={"input": annotation})
    return typing.get_type_hints(holder, getattr(inner, "__globals__", {}), names)["input"]


def is_async(function: Callable[..., object]) -> bool:
    """Return whether calling the object makes a coroutine, also if only its `__call__` is async."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - see above
    )


def return_type(function: Callable[..., object]) -> Any:
    """Return the type that a function, or its coroutine, returns; Any if it isn't annotated.

    Raises Misconfigured if the annotation names something that its module doesn't define at the top
    level.
    """
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    if isinstance(inner, type):
        return inner  # An object with `__call__`.
    if not inspect.isroutine(inner):
        inner = getattr(inner, "__call__", inner)  # noqa: B004 - an object that is called
    inner = getattr(inner, "__func__", inner)
    if not isinstance(inner, FunctionType):
        return Any
    if inner not in _returns:
        annotation = inner.__annotations__.get("return", Any)
        try:
            found = resolved(inner, annotation)
            if typing.get_origin(found) in (Awaitable, Coroutine):
                found = typing.get_args(found)[-1]
            _returns[inner] = found
        except NameError as error:
            raise Misconfigured(
                f"the return type of {inner.__qualname__} is not known here: {error}. Define it at the top "
                "of its module, or give the type as as_="
            ) from error
    return _returns[inner]
