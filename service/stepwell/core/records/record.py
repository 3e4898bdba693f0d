"""The bases of records."""

from __future__ import annotations

from msgspec import Struct


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records.

    The garbage collector ignores records: a frozen value can't be part of a cycle, and a busy server has
    millions of them (their traversal took a fifth of its CPU).
    """


class StoredRecord(Record, frozen=True, kw_only=True):
    """The base of records that a store writes anew whenever they change."""

    unknown: str = ""
    """The fields that a newer version wrote into the store and this one doesn't know, as the store encodes them.

    A store that several versions may share keeps them so. They are in no message.
    """


UNKNOWN = "unknown"
"""The name of that field."""
