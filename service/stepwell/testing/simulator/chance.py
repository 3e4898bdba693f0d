"""Chance from a seed: the same numbers in every process, on every machine and Python.

The standard library's generator may change how it picks from a list; a seed that is kept as a
regression case must not. This is SplitMix64, a few lines long.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1


class Chance:
    """A stream of numbers. Each actor has a stream of its own, so that none disturbs another's."""

    __slots__ = ("_name", "_state")

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")

    def of(self, name: str) -> Chance:
        """Return another stream, which follows from this one's name and `name` alone."""
        return Chance(f"{self._name}/{name}")

    def bits(self) -> int:
        """Return the next 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        return (self.bits() >> 11) / (1 << 53)

    def happens(self, probability: float) -> bool:
        """Tell whether something of this probability happens now."""
        return probability > 0 and self.random() < probability

    def between(self, low: int, high: int) -> int:
        """Return the next whole number from `low` to `high`, both possible."""
        return low + self.bits() % (high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.bits() % len(choices)]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """Return `count` different ones of the choices, in a random order."""
        left = list(choices)
        return [left.pop(self.bits() % len(left)) for _ in range(min(count, len(left)))]
