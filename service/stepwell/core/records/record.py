"""The base of all records."""

from __future__ import annotations

from msgspec import Struct


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all records.

    The garbage collector ignores records: a frozen value can't be part of a cycle, and a busy server has
    millions of them (their traversal took a fifth of its CPU).
    """
