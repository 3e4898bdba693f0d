"""The JSON of values of the OpenAI Agents SDK, whose types are pydantic's."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import from_json

from stepwell_client.internal import in_order

_ANY: TypeAdapter[Any] = TypeAdapter(
    Any, config=ConfigDict(ser_json_bytes="base64", ser_json_inf_nan="strings")
)


def jsonable(value: Any) -> Any:
    """Return a value's JSON form. Raises ValueError or RecursionError if it has none."""
    return from_json(_ANY.dump_json(value, warnings=False, by_alias=True))


def form(value: Any) -> Any:
    """Return JSON that identifies a value, equal in each process; a value without JSON form gives its type's name."""
    return in_order(value, _ANY.dump_python(value, mode="json", warnings=False, fallback=type_name))


def type_name(value: object) -> str:
    """Return the name of a value's type."""
    return type(value).__qualname__
