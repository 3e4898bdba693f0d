"""Canonical bytes of records, for fingerprints: equal records have equal bytes.

A record's own encoding is not canonical. It omits a field whose value *is* the default object; a value
that is equal but was decoded is another object, and is not omitted.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import astuple, fields

_ENCODER = msgspec.json.Encoder()


def bytes_of(value: object) -> bytes:
    """Return the canonical bytes of a value: two values have the same bytes if and only if they are equal."""
    return _ENCODER.encode(_reduced(value))


def _reduced(value: Any) -> Any:
    """Return a record as its fields that differ from the defaults, nested records likewise."""
    if isinstance(value, Struct):
        named = zip(_defaults(type(value)), astuple(value), strict=True)
        return {
            name: one if type(one) in _PLAIN else _reduced(one)
            for (name, default), one in named
            if one is not default and one != default
        }
    if isinstance(value, tuple):
        whole = cast("tuple[Any, ...]", value)
        return [one if type(one) in _PLAIN else _reduced(one) for one in whole]
    if isinstance(value, dict):
        return dict(sorted(cast("dict[str, Any]", value).items()))
    return value


_PLAIN = frozenset({str, int, float, bytes, bool, type(None)})


@cache
def _defaults(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (one.name, one.default if one.default_factory is NODEFAULT else one.default_factory())
        for one in fields(kind)
    )
