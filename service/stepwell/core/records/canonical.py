"""The same bytes for equal records, whatever way they came: what fingerprints are made of.

A record's own encoding is no such thing. It leaves a field out where its value *is* the default, that very
object, so that a float or a record that was decoded stands in it and an equal one that was not is left out.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import astuple, fields

_ENCODER = msgspec.json.Encoder()


def bytes_of(value: object) -> bytes:
    """Return bytes that are alike for two values if these are equal, and only then."""
    return _ENCODER.encode(_told(value))


def _told(value: Any) -> Any:
    """Return a record as the fields in which it is no default one, and the same of all that it holds."""
    if isinstance(value, Struct):
        named = zip(_defaults(type(value)), astuple(value), strict=True)
        return {
            name: one if type(one) in _PLAIN else _told(one)
            for (name, default), one in named
            if one is not default and one != default
        }
    if isinstance(value, tuple):
        whole = cast("tuple[Any, ...]", value)
        return [one if type(one) in _PLAIN else _told(one) for one in whole]
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
