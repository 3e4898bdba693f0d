"""JSON of strangers, read within limits."""

from __future__ import annotations

import json
from typing import Any, cast

from stepwell.schemas.effort import Effort

DEPTH_MAX = 64


class NoJson(ValueError):
    """It is no JSON, or nested too deep; the message says why."""


def load(data: bytes | str, effort: Effort) -> Any:
    """Return the value.

    Raises:
        NoJson: there is none.
        TooLong: it is larger than the steps that are left.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        value = json.loads(text, parse_constant=_refuse)
    except UnicodeDecodeError:
        raise NoJson("it is no UTF-8") from None
    except RecursionError:
        raise NoJson(f"it is nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:
        raise NoJson(f"it is no JSON: {error}") from None
    _look(value, effort)
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _look(value: Any, effort: Effort) -> None:
    """Count what is in it, and see how deep it goes."""
    level = [value]
    for _ in range(DEPTH_MAX):
        effort.spend(len(level))
        level = [inner for one in level for inner in children(one)]
        if not level:
            return
    if any(isinstance(one, dict | list) for one in level):
        raise NoJson(f"it is nested deeper than {DEPTH_MAX} levels")


def children(value: Any) -> list[Any]:
    """Return what an array or an object holds."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
