"""Crash points as a check: workloads on memory, crashed at each commit in turn, until an end is another one."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

from tests.mutants.bug import Caught, Unnoticed
from tests.simulation.crash_points import on_memory
from tests.simulation.crash_workloads import PLAIN
from tests.simulation.crashing import Crash, Fate, Side


class Crashed(NamedTuple):
    """These workloads, each commit, each side, with the worker restarted."""

    workloads: tuple[str, ...]
    proof: str = "crash points"
    unit: str = "crashes"

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Crash until an end is not that of the run without a crash; the proof is named for S18."""
        tried = 0
        for name in self.workloads:
            whole = on_memory(PLAIN[name])
            for at, side in product(range(1, sum(whole.world.commits) + 1), Side):
                tried += 1
                again = partial(_again, name, Crash(at, side, Fate.RESTARTS))
                try:
                    again()
                except Exception:
                    return Caught(
                        ("S18",), f"{name}, commit {at}, {side.name.lower()}", tried, again
                    )
        raise Unnoticed(f"not one of {tried} crashes made a difference to {invariants}")


def _again(name: str, crash: Crash) -> None:
    whole = on_memory(PLAIN[name])
    assert on_memory(PLAIN[name], crash).end == whole.end, f"S18: {name}, {crash}"
