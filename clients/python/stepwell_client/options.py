"""Options of calls, checked by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def takes(options: type) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of methods with `**options` of this TypedDict: other names raise TypeError.

    Python itself accepts any name there. A type checker reports a misspelt one; a program that none has checked
    would be started without what it asked for.
    """

    def checked(method: Callable[P, T]) -> Callable[P, T]:
        given = inspect.signature(method).parameters.values()
        own = {one.name for one in given if one.kind is not inspect.Parameter.VAR_KEYWORD}
        known = own | options.__annotations__.keys()

        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in kwargs:
                if name not in known:
                    raise TypeError(
                        f"{method.__name__}() takes no {name!r}; {_remedy(name, known)}"
                    )
            return method(*args, **kwargs)

        return call

    return checked


def _remedy(name: str, known: set[str]) -> str:
    if nearest := get_close_matches(name, known, 1):
        return f"did you mean {nearest[0]!r}?"
    return f"its options are {', '.join(sorted(known - {'self'}))}"
