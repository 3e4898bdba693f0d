"""Canonical bytes of records, for fingerprints: equal records have equal bytes.

A record's own encoding is not canonical: it omits a field whose value *is* the default object, but
not an equal value that was decoded into another object. Most defaults, such as the empty text, are
single objects. For the others, values that equal the default are replaced by it.
"""

from __future__ import annotations

import types
from enum import Enum
from functools import cache
from itertools import repeat
from operator import attrgetter, is_not
from typing import Any, Union, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields, replace

_ENCODER = msgspec.json.Encoder(order="deterministic")
_PLAIN = frozenset({str, int, float, bytes, bool, types.NoneType})
_ONE_OBJECT_INTS = range(-5, 257)
"""Python has each of these numbers as a single object."""


def bytes_of(value: object) -> bytes:
    """Return the canonical bytes of a value: two values have the same bytes if and only if they are equal."""
    return _ENCODER.encode(_with_defaults(value))


def _with_defaults(value: Any) -> Any:
    """Return an equal value in which everything that equals a default is the default object, at any depth."""
    if isinstance(value, Struct):
        for name, default in _looked_at(type(value)):
            if getattr(value, name) is not default:
                return _replaced(value)
        return value
    if isinstance(value, tuple):
        many = cast("tuple[Any, ...]", value)
        kinds = set(map(type, many))
        if len(kinds) == 1 and _hold_defaults(kinds.pop(), many):
            return many
        return [_with_defaults(one) for one in many]
    return value


def _hold_defaults(kind: type[Any], records: tuple[Any, ...]) -> bool:
    """Return whether these are records with only default objects in the checked fields.

    Plans are long, and most tasks are such records, so this loop runs in C, without a call for
    each.
    """
    return issubclass(kind, Struct) and not any(
        any(map(is_not, map(attrgetter(name), records), repeat(default)))
        for name, default in _looked_at(kind)
    )


def _replaced(record: Struct) -> Struct:
    changed: dict[str, Any] = {}
    for name, default in _looked_at(type(record)):
        one = getattr(record, name)
        kept = default if one == default else _with_defaults(one)
        if kept is not one:
            changed[name] = kept
    return replace(record, **changed) if changed else record


@cache
def _looked_at(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """Return the fields, with their defaults, whose own encoding may not be canonical."""
    return tuple((one.name, one.default) for one in fields(kind) if not _is_canonical(one))


def _is_canonical(field: FieldInfo) -> bool:
    if not _is_plain(field.type):
        return False
    default = field.default
    if isinstance(default, int):
        return default in _ONE_OBJECT_INTS
    return default is NODEFAULT or default in (None, "", b"", ()) or isinstance(default, Enum)


def _is_plain(kind: Any) -> bool:
    """Return whether values of this type hold no records."""
    origin = get_origin(kind)
    if origin in (tuple, dict, Union, types.UnionType):
        return all(_is_plain(one) for one in get_args(kind) if one is not ...)
    return kind in _PLAIN or (isinstance(kind, type) and issubclass(kind, Enum))
