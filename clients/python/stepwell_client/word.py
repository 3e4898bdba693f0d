"""The base of the protocol's enums."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Word(IntEnum):
    """A number that prints as its name."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        """Return a member for a number that only a newer server knows, without listing it among the members."""
        if not isinstance(value, int):
            return None
        made = int.__new__(cls, value)
        made._name_, made._value_ = str(value), value
        return made

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)
