"""The simulator as a check: seeds from 0 on, until one fails."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.mutants.bug import Caught, Unnoticed
from tests.simulation.simulator import Failure, simulate


class Simulated(NamedTuple):
    """So many seeds at the most."""

    seeds: int = 300
    first: int = 0
    proof: str = "simulator"
    unit: str = "seeds"

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Play seeds until one fails."""
        for tried, seed in enumerate(range(self.first, self.first + self.seeds), 1):
            try:
                simulate(seed)
            except Failure as failure:
                return Caught((failure.name,), f"seed {seed}", tried, partial(_again, seed))
        raise Unnoticed(f"not one of {self.seeds} seeds failed")


def _again(seed: int) -> None:
    simulate(seed)
