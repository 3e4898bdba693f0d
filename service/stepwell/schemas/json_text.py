"""JSON of agents and people, decoded within limits."""

from __future__ import annotations

import json
from typing import Any, cast

from stepwell.schemas.effort import Effort

DEPTH_MAX = 64


class InvalidJson(ValueError):
    """The text is not JSON, or nested too deeply; the message says why."""


def load(data: bytes | str, effort: Effort) -> Any:
    """Return the decoded value.

    Raises:
        InvalidJson: the text is not JSON, or nested too deeply.
        TooLong: the value is larger than the remaining steps.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        value = json.loads(text, parse_constant=_refuse)
    except UnicodeDecodeError:
        raise InvalidJson("it is no UTF-8") from None
    except RecursionError:
        raise InvalidJson(f"it is nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:
        raise InvalidJson(f"it is no JSON: {error}") from None
    _check_depth(value, effort)
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _check_depth(value: Any, effort: Effort) -> None:
    """Refuse a value that is nested too deeply; each value within costs a step."""
    level = [value]
    for _ in range(DEPTH_MAX):
        effort.spend(len(level))
        level = [inner for one in level for inner in children(one)]
        if not level:
            return
    if any(isinstance(one, dict | list) for one in level):
        raise InvalidJson(f"it is nested deeper than {DEPTH_MAX} levels")


def children(value: Any) -> list[Any]:
    """Return the values in an array or an object."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
