"""Checks that LangGraph's serializer will bring values back as they are.

It finds a class by its module and its bare name. One that it can't find comes back as a plain value
or a dict, without an error.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, cast

from langgraph.checkpoint.serde.base import SerializerProtocol
from pydantic import BaseModel

from stepwell_client import NonRetryable
from stepwell_client.internal import INVALID_RESULT

_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_KEYS = _PLAIN | {tuple}
_COLLECTIONS = (list, tuple, set, frozenset, deque)
_KNOWN = frozenset({"langchain_core", "langgraph"})
"""Packages whose models the serializer knows."""


def check_types(serde: SerializerProtocol, value: object) -> None:
    """Raise NonRetryable, with the name of the type, if a value or one within it would come back as another type."""
    todo: list[object] = [value]
    while todo:
        one = todo.pop()
        if type(one) not in _PLAIN:
            todo += _checked(serde, one)


def _checked(serde: SerializerProtocol, one: Any) -> Iterable[object]:
    """Check a value without those within it, and return them."""
    kind = type(cast("object", one))
    if isinstance(one, BaseModel):
        if kind.__module__.partition(".")[0] not in _KNOWN:
            back = serde.loads_typed(serde.dumps_typed(one))
            # A NaN equals nothing, so the texts are compared, too.
            if type(back) is not kind or (back != one and repr(back) != repr(one)):
                raise _refused(
                    kind, "define it in its module, with types of its fields, and no aliases"
                )
        return ()
    is_record = dataclasses.is_dataclass(kind)
    if is_record or issubclass(kind, Enum) or hasattr(kind, "_asdict"):
        if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind:
            raise _refused(kind, "define the class at the level of its module")
        if is_record:
            fields = dataclasses.fields(kind)
            if not all(field.init for field in fields):
                raise _refused(kind, "not all its fields are arguments")
            return [getattr(one, field.name) for field in fields]
    if isinstance(one, Mapping):
        mapping = cast("Mapping[object, object]", one)
        for key in mapping:
            if type(key) not in _KEYS:
                raise _refused(type(key), "as a key of a dict it would become a text")
        return mapping.values()
    return cast("Iterable[object]", one) if isinstance(one, _COLLECTIONS) else ()


def _refused(kind: type, remedy: str) -> NonRetryable:
    name = f"{kind.__module__}.{kind.__qualname__}"
    return NonRetryable(f"a {name} can't be kept: {remedy}", kind=INVALID_RESULT)
