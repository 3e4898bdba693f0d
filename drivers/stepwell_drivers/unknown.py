"""Fields that a newer version wrote into a stored record and this one doesn't know.

A record that is loaded to be written again keeps them (`StoredRecord.unknown`), in the store's
encoding. There are such fields if decoding and encoding a record changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import fields

from stepwell.core.records.record import UNKNOWN, StoredRecord


def fields_beyond(
    record: StoredRecord, stored: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a stored record that are unknown to this version's record."""
    known = {field.encode_name for field in fields(record)}
    return {
        name: value
        for name, value in _beyond(stored, own).items()
        # A known field that this version omits has its default.
        if name in own or name not in known
    }


def _beyond(more: Mapping[str, Any], less: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the first has and the second lacks, also within nested objects."""
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
    """Return this version's fields of a record together with the unknown ones."""
    return _merged(unknown, {name: value for name, value in own.items() if name != UNKNOWN})


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both merged, also within nested objects; the second's values win."""
    merged = {**below, **above}
    for name, value in below.items():
        if isinstance(value, dict) and isinstance(above.get(name), dict):
            merged[name] = _merged(cast("dict[str, Any]", value), above[name])
    return merged
