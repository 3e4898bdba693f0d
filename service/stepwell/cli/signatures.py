"""Signatures of commands: those that a kind of command shares are written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, get_args


def adding(
    run: Callable[..., int],
    command: Callable[..., int],
    passed: int,
    *,
    first: Mapping[str, Any] | None = None,
    last: Mapping[str, Any] | None = None,
) -> Callable[..., int]:
    """Return `run` as the command that typer reads: with the options of `command`, and more before and after them.

    The first parameters of `command` are no options but what `run` has `passed` it. An option in `last` that isn't
    given is False, an empty text or None.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        *(inspect.Parameter(name, kind, annotation=one) for name, one in (first or {}).items()),
        *list(inspect.signature(command, eval_str=True).parameters.values())[passed:],
        *(
            inspect.Parameter(name, kind, annotation=one, default=_default(one))
            for name, one in (last or {}).items()
        ),
    ]
    made = run if run is command else wraps(command)(run)
    made.__dict__["__signature__"] = inspect.Signature(parameters)
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    return made


def _default(annotation: Any) -> Any:
    of_kind = get_args(annotation)[0]
    return of_kind() if of_kind in (bool, str) else None
