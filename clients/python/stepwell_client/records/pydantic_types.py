"""Reads and writes values of pydantic's classes, with adapters that are made once for each class.

pydantic is never imported here: a class that it made brings it along.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from stepwell_client.errors import DecodeError, Violation

VIOLATIONS_MAX = 100
_MARKS = ("__get_pydantic_core_schema__", "__pydantic_validator__")


def is_pydantic(kind: Any) -> bool:
    """Return whether a class is pydantic's to read: a model, a dataclass of its own, a type such as SecretStr."""
    return "pydantic" in sys.modules and any(hasattr(kind, mark) for mark in _MARKS)


@lru_cache(1024)
def _adapter(kind: Any) -> Any:
    return sys.modules["pydantic"].TypeAdapter(kind)


@lru_cache(1)
def _by_any_name() -> dict[str, bool]:
    """Return the options that have fields read by their aliases and by their names; pydantic 2.11 brought them."""
    version = sys.modules["pydantic"].VERSION.split(".")[:2]
    return {"by_alias": True, "by_name": True} if [*map(int, version)] >= [2, 11] else {}


def dump(value: object, *, json: bool, by_alias: bool) -> Any:
    """Return a value's JSON (bytes), or its fields as Python values, without computed fields.

    Raises TypeError or ValueError if pydantic can't write it.
    """
    adapter = _adapter(type(value))
    write = adapter.dump_json if json else adapter.dump_python
    return write(value, by_alias=by_alias, round_trip=True, warnings=False)


def validate(kind: Any, data: bytes, path: str) -> Any:
    """Return the value of JSON. Raises DecodeError, with paths and without values, if it doesn't fit."""
    try:
        return _adapter(kind).validate_json(data, **_by_any_name())
    except ValueError as error:
        listing = getattr(error, "errors", None)
        if listing is None:
            raise
        errors = cast(
            "Sequence[Mapping[str, Any]]",
            listing(include_url=False, include_input=False, include_context=False),
        )
        raise failure(
            [
                Violation(path + "".join(map(_step, item["loc"])), str(item["msg"]))
                for item in errors[:VIOLATIONS_MAX]
            ]
        ) from None


def _step(part: object) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"


def failure(violations: list[Violation]) -> DecodeError:
    """Return the error for a value whose parts don't fit."""
    return DecodeError("; ".join(f"{v.field}: {v.description}" for v in violations), violations)
