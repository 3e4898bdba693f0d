"""The bases of records."""

from __future__ import annotations

from msgspec import Struct


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records.

    The garbage collector ignores records, because a frozen value can't be part of a cycle and
    traversing a busy server's millions of records took a fifth of its CPU.
    """


class StoredRecord(Record, frozen=True, kw_only=True):
    """The base of records that a store rewrites whenever they change."""

    unknown: str = ""
    """The fields that a newer version wrote into the store and this one doesn't know, in the store's encoding.

    A store that several versions share thus keeps them. They are in no message.
    """


UNKNOWN = "unknown"
"""The name of that field."""
