"""Faults: the fields of a message that are beyond their limits, and what was found there."""

from __future__ import annotations

import re
from collections.abc import Collection, Sized
from typing import Any

from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.limits import NAME_PATTERN, VIOLATIONS_MAX

_SHOWN_CHARS_MAX = 40
_NANOS = 1_000_000_000

is_name = re.compile(NAME_PATTERN).fullmatch
has_control = re.compile(r"[\x00-\x1f\x7f]").search


class Faults(list[Violation]):
    """The faults found so far; those beyond `VIOLATIONS_MAX` are only counted."""

    more = 0
    reason = ""
    """The reason of the error; empty: the one of most limits."""

    def add(self, field: str, description: str, reason: str = "") -> None:
        """Add a fault."""
        self.reason = self.reason or reason
        if len(self) < VIOLATIONS_MAX:
            self.append(Violation(field, description))
        else:
            self.more += 1

    def take_over(self, others: Faults, path: str) -> None:
        """Add the faults of what stands at a path."""
        for one in others:
            self.add(path + one.field, one.description, others.reason)
        self.more += others.more

    def refuse(self) -> None:
        """Raise if there are any."""
        if not self:
            return
        first, others = self[0], len(self) - 1 + self.more
        more = f" (and {others:,} more)" if others else ""
        raise InvalidArgument(
            f"{first.field}: {first.description}{more}", tuple(self), reason=self.reason or None
        )


# The functions below describe a value that is beyond its limit: briefly, and never a secret.


def shown(value: str) -> str:
    """Return a value fit for an error: short, and with no control characters."""
    cut = value if len(value) <= _SHOWN_CHARS_MAX else value[:_SHOWN_CHARS_MAX] + "…"
    return re.sub(r"\s", " ", repr(cut))


def quoted(value: str) -> str:
    """Describe a name."""
    return f"{shown(value)} of {len(value):,} characters"


def length(value: str) -> str:
    """Describe a text whose limit is a number of characters."""
    return f"{len(value):,} characters"


def size(value: bytes) -> str:
    """Describe bytes."""
    return f"{len(value):,} bytes"


def utf8_size(value: str) -> str:
    """Describe a text whose limit is a number of bytes, or that has a NUL."""
    if "\0" in value:
        return f"NUL as character {value.index(chr(0)) + 1:,}, where any other may stand"
    return f"{len(value.encode()):,} bytes"


def data_size(payload: Any) -> str:
    """Describe a payload."""
    return size(payload.data)


def message_size(value: Any) -> str:
    """Describe a message with all that is in it."""
    return f"{value.ByteSize():,} bytes"


def items(value: Sized) -> str:
    """Describe a list or a map."""
    return f"{len(value):,} items"


def items_size(value: Collection[Any]) -> str:
    """Describe a list of messages."""
    return f"{items(value)}, together {sum(one.ByteSize() for one in value):,} bytes"


def seconds(value: Any) -> str:
    """Describe a Duration."""
    if not -_NANOS < value.nanos < _NANOS:
        return f"{value.nanos:,} nanos, where at most {_NANOS - 1:,} may stand"
    return f"{value.seconds + value.nanos / _NANOS:g} s"
