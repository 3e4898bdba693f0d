"""The totals of many seeds, and which of them failed."""

from __future__ import annotations

from collections import Counter

from tests.simulation.simulator import Failure, simulate


class Tally:
    """The totals of some seeds."""

    def __init__(self) -> None:
        self.seeds = 0
        self.commits = 0
        self.seen: Counter[str] = Counter()
        """The count of each rare event."""
        self.checks: Counter[str] = Counter()
        """The count of checks of each invariant."""
        self.failed: list[str] = []
        """For each seed that failed, the invariant, how to replay it, and the dump."""

    def add(self, other: Tally) -> None:
        """Add those of other seeds."""
        self.seeds += other.seeds
        self.commits += other.commits
        self.seen.update(other.seen)
        self.checks.update(other.checks)
        self.failed += other.failed


def play(seeds: range) -> Tally:
    """Play seeds in this process."""
    tally = Tally()
    for seed in seeds:
        tally.seeds += 1
        try:
            outcome = simulate(seed)
        except Failure as failure:
            tally.failed.append(str(failure))
            continue
        tally.commits += outcome.commits
        tally.seen.update(outcome.seen)
        tally.checks.update(outcome.checks)
    return tally
