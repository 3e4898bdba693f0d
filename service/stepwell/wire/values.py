"""Values of fields, between records and messages: what the generated conversions share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from google.protobuf.duration_pb2 import Duration
from msgspec import Struct

from stepwell.core.records.errors import InvalidArgument, Violation


class Numbers(dict[int, Any]):
    """An enum's members by number; an unknown number is an error that names the field."""

    def __init__(self, where: str, members: Mapping[int, StrEnum]) -> None:
        super().__init__(members)
        self.where = where

    def __missing__(self, number: int) -> StrEnum:
        """Refuse the number."""
        what = "must be given" if number == 0 else f"has no value numbered {number}"
        name = self.where.rpartition(".")[2]
        raise InvalidArgument(f"{self.where} {what}", (Violation(name, what),))


def put_ms(duration: Duration, ms: int) -> None:
    """Write a time span, and its presence."""
    if ms < 0:
        duration.seconds, duration.nanos = -(-ms // 1_000), -(-ms % 1_000) * 1_000_000
    else:
        duration.seconds, duration.nanos = ms // 1_000, ms % 1_000 * 1_000_000
    duration.SetInParent()


def get_ms(duration: Duration) -> int:
    """Read a time span; a part of a millisecond counts as a whole one, as 0 would mean no limit."""
    return duration.seconds * 1_000 - (-duration.nanos // 1_000_000)


def missing(where: str) -> Any:
    """Refuse a message that lacks what its record can't do without."""
    what = "must be given"
    raise InvalidArgument(f"{where} {what}", (Violation(where.rpartition(".")[2], what),))


def default_of(kind: type[Struct], field: str) -> Any:
    """Return the default of a record's field: the very object, which a record that wasn't given one has."""
    names = kind.__struct_fields__
    return kind.__struct_defaults__[names.index(field) - len(names)]
