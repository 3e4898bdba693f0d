"""Types that functions are annotated with, though they may be written as strings."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from stepwell_client.errors import Misconfigured

_returns: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()


def resolved(function: Callable[..., object], annotation: Any) -> Any:
    """Return the type that an annotation of a function means. Raises NameError where it isn't known."""
    inner: Any = inspect.unwrap(function)
    inner = getattr(inner, "__func__", inner)
    names: dict[str, Any] = {}
    if hasattr(inner, "__closure__"):
        names = dict(inspect.getclosurevars(inner).nonlocals)
    holder = SimpleNamespace(__annotations__={"input": annotation})
    return typing.get_type_hints(holder, getattr(inner, "__globals__", {}), names)["input"]


def is_async(function: Callable[..., object]) -> bool:
    """Return whether calling it makes a coroutine, also of an object whose call is async."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - see above
    )


def return_type(function: Callable[..., object]) -> Any:
    """Return the type of what a function returns, or what its coroutine does; Any: it isn't annotated.

    Raises Misconfigured where the annotation names something that isn't known at the top of its module.
    """
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    if isinstance(inner, type):
        return inner  # Its instance.
    if not inspect.isroutine(inner):
        inner = getattr(inner, "__call__", inner)  # noqa: B004 - an object that is called
    inner = getattr(inner, "__func__", inner)
    if not isinstance(inner, FunctionType):
        return Any
    if inner not in _returns:
        annotation = inner.__annotations__.get("return", Any)
        try:
            _returns[inner] = resolved(inner, annotation)
        except NameError as error:
            raise Misconfigured(
                f"the return type of {inner.__qualname__} is not known here: {error}. Define it at the top "
                "of its module, or give the type as as_="
            ) from error
    return _returns[inner]
