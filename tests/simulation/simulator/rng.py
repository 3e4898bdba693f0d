"""Random numbers from a seed: the same in every process, on every machine and Python.

The standard library's generator may change how it picks from a list; a seed that is kept as a
regression case must not. This is BLAKE2b over the stream's name and a counter, a few lines long.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_EIGHT = struct.Struct("<8Q")
_UNIT = 2.0**-53
"""The unit of the highest 53 of 64 bits: each such number is a float, and exact."""


class Rng:
    """A stream of numbers. Each actor has a stream of its own, so that none disturbs another's."""

    __slots__ = ("_left", "_name", "_pages")

    def __init__(self, name: str) -> None:
        self._name = name
        self._pages = 0
        self._left: list[int] = []

    def stream(self, name: str) -> Rng:
        """Return another stream, which follows from this one's name and `name` alone."""
        return Rng(f"{self._name}/{name}")

    def bits(self) -> int:
        """Return the next 64 bits."""
        return (self._left or self._page()).pop()

    def _page(self) -> list[int]:
        self._pages += 1
        page = hashlib.blake2b(f"{self._name}#{self._pages}".encode()).digest()
        self._left = list(_EIGHT.unpack(page))
        return self._left

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        return ((self._left or self._page()).pop() >> 11) * _UNIT

    def happens(self, probability: float) -> bool:
        """Return whether something of this probability happens now."""
        return probability > 0 and self.random() < probability

    def between(self, low: int, high: int) -> int:
        """Return the next whole number from `low` to `high`, both possible."""
        return low + self.bits() % (high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.bits() % len(choices)]

    def sample(self, choices: Sequence[T], count: int) -> list[T]:
        """Return `count` different ones of the choices, in a random order."""
        left = list(choices)
        return [left.pop(self.bits() % len(left)) for _ in range(min(count, len(left)))]
