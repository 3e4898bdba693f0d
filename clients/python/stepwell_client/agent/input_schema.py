"""Makes the JSON schema of the values that an annotation decodes from, for forms and people; the
mirror of `payloads.decode`. pydantic is never imported: a class that has `model_json_schema` makes
its own schema.

Types without a schema leave their part open: `{}`.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, Union, cast

from stepwell_client.records.json_forms import shallow_form
from stepwell_client.records.pydantic_types import dump, is_pydantic

SCHEMA_BYTES_MAX = 64 * 1024

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    dict: {"type": "object"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    frozenset: {"type": "array"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    type(None): {"type": "null"},
    None: {"type": "null"},
}


def schema_of(annotation: Any) -> dict[str, Any]:
    """Return the JSON schema of an annotation; empty if it accepts anything, or has no schema."""
    writer = _Writer()
    try:
        found = writer.schema(annotation)
    except (NameError, RecursionError):
        # The type of a field isn't defined at the top of its module; decoding reports that.
        return {}
    return {**found, "$defs": writer.definitions} if writer.definitions else found


def text_of(schema: Mapping[str, Any]) -> str:
    """Return a schema as text. Raises TypeError or ValueError if it is not JSON."""
    return json.dumps(schema, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class _Writer:
    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        """The definitions that schemas of pydantic models refer to."""
        self._open: list[Any] = []
        """The classes whose fields are being written; a class within itself is left open."""

    def schema(self, annotation: Any) -> dict[str, Any]:
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._generic(annotation, origin)
        own = getattr(annotation, "model_json_schema", None)
        if callable(own):
            return self._of_model(own)
        if annotation in self._open:
            return {}
        if typing.is_typeddict(annotation):
            hints = typing.get_type_hints(annotation)
            required = [name for name in hints if name in annotation.__required_keys__]
            return self._members(annotation, list(hints), required, {})
        if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
            return self._dataclass(annotation)
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return {"enum": [one.value for one in annotation]}
        if isinstance(annotation, type) and issubclass(annotation, PurePath):
            return {"type": "string"}
        if isinstance(annotation, typing.NewType):
            return self.schema(annotation.__supertype__)
        return dict(_PLAIN.get(annotation, {})) if _is_hashable(annotation) else {}

    def _generic(self, annotation: Any, origin: Any) -> dict[str, Any]:
        arguments = typing.get_args(annotation)
        if origin is Union or origin is types.UnionType:
            return {"anyOf": [self.schema(one) for one in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is typing.Annotated:
            return self.schema(arguments[0])
        if not isinstance(origin, type):
            return {}
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema(arguments[1])}
        if origin is tuple and arguments[1:] != (...,):
            count = len(arguments)
            parts = [self.schema(one) for one in arguments]
            return {"type": "array", "prefixItems": parts, "minItems": count, "maxItems": count}
        if issubclass(origin, Sequence | set | frozenset):
            return {"type": "array", "items": self.schema(arguments[0])}
        return {}

    def _of_model(self, own: Callable[[], Any]) -> dict[str, Any]:
        try:
            found = cast("dict[str, Any]", own())
        except Exception:  # noqa: BLE001 - pydantic has no schema for some types, and says so in errors of its own
            return {}
        self.definitions.update(found.pop("$defs", {}))
        return found

    def _dataclass(self, annotation: type[Any]) -> dict[str, Any]:
        fields = [one for one in dataclasses.fields(annotation) if one.init]
        required = [one.name for one in fields if _default(one) is dataclasses.MISSING]
        defaults = {one.name: _default(one) for one in fields if one.name not in required}
        return self._members(annotation, [one.name for one in fields], required, defaults)

    def _members(
        self,
        annotation: Any,
        names: Sequence[str],
        required: Sequence[str],
        defaults: Mapping[str, Any],
    ) -> dict[str, Any]:
        hints = typing.get_type_hints(annotation)
        self._open.append(annotation)
        properties = {name: self.schema(hints[name]) for name in names}
        self._open.pop()
        for name, value in defaults.items():
            if (plain := _plain(value)) is not dataclasses.MISSING:
                properties[name]["default"] = plain
        found: dict[str, Any] = {"type": "object", "properties": properties}
        return {**found, "required": list(required)} if required else found


def _is_hashable(annotation: Any) -> bool:
    return getattr(annotation, "__hash__", None) is not None


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _plain(value: Any) -> Any:
    """Return a default in its JSON form, or MISSING if it has none."""
    try:
        return json.loads(json.dumps(value, default=_default_form, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return dataclasses.MISSING


def _default_form(value: Any) -> Any:
    """Return a form of a default that people may read: pydantic hides secrets in its JSON."""
    return (
        json.loads(dump(value, json=True, by_alias=True))
        if is_pydantic(type(value))
        else shallow_form(value)
    )
