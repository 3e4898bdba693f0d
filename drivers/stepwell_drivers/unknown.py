"""Fields that a newer version wrote into a stored record and this one doesn't know.

Whoever loads a record to write it again keeps them with it (`StoredRecord.unknown`), in the encoding of the store. They are
found where a record that was decoded and encoded again isn't what was stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import fields

from stepwell.core.records.record import UNKNOWN, StoredRecord


def fields_beyond(
    record: StoredRecord, stored: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a stored record that the same one of this version has not."""
    known = {field.encode_name for field in fields(record)}
    return {
        name: value
        for name, value in _beyond(stored, own).items()
        # A known field that this version leaves out has its default.
        if name in own or name not in known
    }


def _beyond(more: Mapping[str, Any], less: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the first has and the second lacks, objects within objects too."""
    found = {name: value for name, value in more.items() if name not in less}
    for name, value in less.items():
        if (
            isinstance(value, dict)
            and isinstance(more.get(name), dict)
            and (within := _beyond(more[name], cast("dict[str, Any]", value)))
        ):
            found[name] = within
    return found


def with_unknown(unknown: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record of this version together with those that it doesn't know."""
    return _merged(unknown, {name: value for name, value in own.items() if name != UNKNOWN})


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; where both have a field, the second's stands, objects within objects merged."""
    merged = {**below, **above}
    for name, value in below.items():
        if isinstance(value, dict) and isinstance(above.get(name), dict):
            merged[name] = _merged(cast("dict[str, Any]", value), above[name])
    return merged
