"""Size of each proof at three scales: in little, as `make proof` plays it, and as a soak for a night.

`STEPWELL_PROOF` picks the scale, and `make proof` sets it. Without it a proof is played in little: by hand, as the
check of a mutant, and behind the first door, where it needs nothing real. A test that asks for a size carries
the mark `proof`.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import NamedTuple

SCALE = "STEPWELL_PROOF"


class Scale(StrEnum):
    """Scale at which the proofs are played."""

    TEST = "test"
    PROOF = "proof"
    SOAK = "soak"


class Size(NamedTuple):
    """Number of something at each scale."""

    test: int
    proof: int
    soak: int


SIZES: dict[str, Size] = {
    # Seeds of the simulator, and how many of them are played twice.
    "seeds": Size(200, 20_000, 1_000_000),
    "seeds twice": Size(20, 200, 2_000),
    # Of a hundred: the share of crash points, on the servers and where each costs less.
    "crash points, percent": Size(5, 17, 100),
    "crash points on SQLite, percent": Size(5, 100, 100),
    "crash points on memory, percent": Size(40, 100, 100),
    # Workloads that are crashed on each driver; memory has all of them always.
    "crash workloads": Size(2, 12, 12),
    "pairs of crashes": Size(60, 1_000, 20_000),
    # Kills and stops, for each driver.
    "kills": Size(10, 300, 10_000),
    "kills around a queue's place": Size(5, 20, 1_000),
    "zombies": Size(200, 10_000, 100_000),
    # Power cuts for each driver and setting.
    "power cuts": Size(2, 26, 500),
    "power cuts, postgres": Size(1, 12, 250),
    # Every n-th write fails: how many n at the most.
    "failed writes": Size(20, 1_200, 10_000),
    # Operations behind the TCP fault proxy, for each driver.
    "operations": Size(500, 25_000, 250_000),
    # Of a hundred: the share of the functional suite's tests, each times every driver and mode.
    "functional suite, percent": Size(1, 15, 100),
    # Moves of slots, and fail-overs with a master or primary killed.
    "fail-overs": Size(1, 8, 100),
    # The same below three replicas with their workers and watchers, each of which restarts.
    "fail-overs below the service": Size(0, 2, 10),
    # Calls abandoned or cancelled.
    "calls": Size(400, 20_000, 200_000),
    "restarts": Size(2, 12, 200),
    # Times that a clock is set while runs go on, for each kind of store.
    "clock jumps": Size(8, 40, 1_000),
    # Mishaps of all kinds upon one server of each store: for how long, after how many kills, before how many watchers.
    "growth, seconds": Size(8, 45, 600),
    "growth, kills": Size(3, 10, 40),
    "growth, watchers": Size(20, 200, 200),
    "fuzzed inputs": Size(2_000, 50_000, 2_000_000),
}
"""Sizes by name; a proof with another kind of size adds a line."""


def scale() -> Scale:
    """Return the scale of this process.

    Raises:
        ValueError: the variable names none.
    """
    return Scale(os.environ.get(SCALE, Scale.TEST))


def size(name: str) -> int:
    """Return how many of `name` this process is to play."""
    return int(getattr(SIZES[name], scale()))


def chunks(name: str, each: int) -> list[range]:
    """Return the size cut into ranges of `each` at the most: one test case each, for all processes."""
    count = size(name)
    return [range(first, min(first + each, count)) for first in range(0, count, each)]
