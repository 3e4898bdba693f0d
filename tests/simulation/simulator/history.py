"""All that happened in a simulation, in order: the trace, its hash, and how often each rare thing did."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable


class History:
    """An append-only trace. An entry's number is its place in the one order of the simulation."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.lines: list[str] = []
        self.seen: Counter[str] = Counter()
        """The count of each event that must happen at least once in many seeds."""

    @property
    def order(self) -> int:
        """The number of entries."""
        return len(self.lines)

    def note(self, what: str) -> int:
        """Add an entry; returns its number."""
        self.lines.append(f"{self.now():.6f} {what}")
        return len(self.lines)

    @property
    def hash(self) -> str:
        """The same for the same seed and the same code, in every process."""
        return hashlib.blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()
