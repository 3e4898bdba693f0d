"""The cells in which the functional suite is played over a store that fails.

A cell is a kind of store and a mode. Which cells a test is played in, how often calls meet the mode, and
which calls do, all follows from the seed and the test's own name: a cell of a larger scale is the same
cell.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

from stepwell.core.port import Store
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime
from stepwell_testkit.faults import Faults, FaultyStore, Mode
from tests.support.proofs.sizes import SCALE, size

SEED = "STEPWELL_FAULTS_SEED"
SHARES = (0.05, 0.1, 0.2, 0.3)
DELAY_MS_MAX = 30
SILENCE_MS = 200
LOST_HINTS = 0.2

NEVER_FAIL = ("describe", "subscribe", "close")
"""A server doesn't start before it knows its store."""

FIXTURES = ("served_everywhere", "served")

Test = Callable[..., Any]


class Cell(NamedTuple):
    """The store, the mode and the share of faults with which one test is played."""

    store: str
    mode: Mode
    share: float

    @property
    def name(self) -> str:
        """As it stands in the test's id."""
        return f"{self.store}-{self.mode}-{self.share:.0%}"


METHODS = frozenset(
    name for name in vars(Store) if not name.startswith("_") and name not in NEVER_FAIL
)


class LeftOut(NamedTuple):
    """In which modes a test isn't played, and why."""

    modes: frozenset[Mode]
    reason: str


class Spared(NamedTuple):
    """Which calls meet no faults in a test, in which modes, and why."""

    methods: frozenset[str]
    reason: str
    modes: frozenset[Mode] = frozenset(Mode)


def spared(*methods: str, why: str) -> Spared:
    """Say that these calls meet no faults."""
    assert METHODS.issuperset(methods), methods
    return Spared(frozenset(methods), why)


NOTHING = LeftOut(frozenset(), "")
NONE = Spared(frozenset(), "")


NOT_TWICE = spared("delete_run", why="of two deletions the second says that there is no such run")


class Chance(SystemRuntime):
    """The real world, but for chance, which a seed repeats."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._chance = Random(seed)

    def random(self) -> float:
        return self._chance.random()


def seed() -> str:
    """Return the seed of this process."""
    return os.environ.get(SEED, "1")


def drawn(*of: str) -> float:
    """Return a number in [0, 1) that follows from the seed and these words."""
    words = "/".join((seed(), *of)).encode()
    return int.from_bytes(hashlib.sha256(words).digest()[:6]) / 2**48


def cells_of(test: str, stores: tuple[str, ...], left_out: LeftOut | None = None) -> list[Cell]:
    """Return where a test is played at this scale."""
    modes = [mode for mode in Mode if mode not in (left_out or NOTHING).modes]
    percent = size("functional suite, percent")
    return [
        Cell(store, mode, SHARES[int(drawn(test, store, mode, "share") * len(SHARES))])
        for store, mode in product(stores, modes)
        if drawn(test, store, mode) * 100 < percent
    ]


def borrowed(*modules: ModuleType) -> Iterator[tuple[str, Test]]:
    """Return each test of the modules that wants a server, with its name."""
    for module in modules:
        for name, test in vars(module).items():
            wanted = inspect.signature(test).parameters if name.startswith("test_") else ()
            if any(fixture in wanted for fixture in FIXTURES):
                yield name, test


def faults_of(cell: Cell, spared: Spared) -> Faults:
    """Return the faults of a cell; hints are lost in all of them."""
    methods = METHODS
    if cell.mode is Mode.TWICE:
        methods -= NOT_TWICE.methods
    if cell.mode in spared.modes:
        methods -= spared.methods
    faults = Faults(
        delay_ms_max=DELAY_MS_MAX,
        silence_ms=SILENCE_MS,
        lost_hints=LOST_HINTS,
        methods=methods,
    )
    return faults._replace(**{cell.mode.value: cell.share})


class FaultyDoors:
    """Puts a store that fails between each server of one test and its real store."""

    def __init__(self, test: str, cell: Cell, spared: Spared | None = None) -> None:
        self._test = test
        self._cell = cell
        self._faults = faults_of(cell, spared or NONE)
        self.opened: list[FaultyStore] = []

    def __call__(self, store: Store) -> Store:
        words = f"{seed()} {self._test} {self._cell.name} {len(self.opened)}"
        door = FaultyStore(store, Chance(words), self._faults)
        self.opened.append(door)
        return door

    @property
    def seen(self) -> Counter[str]:
        """Count what befell calls, by method and mode."""
        return sum((door.seen for door in self.opened), Counter[str]())


def replay_command(node: str) -> str:
    """Return the command that plays one test again, whatever the scale it was met at."""
    return f"replay: {SCALE}=soak {SEED}={seed()} python -m pytest '{node}'"


def codes(server: Server) -> Counter[str]:
    """Return how the calls to a server ended."""
    found = Counter[str]()
    for metric in server.metrics.registry.collect():
        if metric.name == "stepwell_rpc":
            for sample in metric.samples:
                if sample.name.endswith("_total"):
                    found[sample.labels["code"]] += int(sample.value)
    return found
