"""Checks that play mutants: the project's proofs, each until something named for an invariant fails."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell_testkit.conformance.catalog import invariants_of
from stepwell_testkit.conformance.drawn import Explorer, Subject
from stepwell_testkit.conformance.harness import Cases
from tests.chaos.disk.disk import disk
from tests.chaos.disk.powered import sqlite
from tests.chaos.disk.series import Part, Series, Setting
from tests.contract.conformance.conftest import MemoryFactory
from tests.mutants import scenarios
from tests.mutants.changes import StorePort
from tests.simulation.crash_workloads import PLAIN
from tests.simulation.crashing import Crash, Fate, Side, on_memory
from tests.simulation.simulator import Failure, InvariantViolation, Ports, simulate
from tests.simulation.simulator.violation import holds

Play = Callable[[Ports], None]
"""Plays one thing with what stands at the ports; raises if an invariant doesn't hold."""


class Survived(Exception):
    """Nothing failed by the name of the invariant."""


class Caught(NamedTuple):
    """A check that failed by the name of an invariant."""

    where: str
    """The seed, case, program or crash that failed."""
    played: int
    """The number that was played until then, this one counted."""
    again: Play
    """Plays that one again."""


class Check(NamedTuple):
    """One of the project's proofs."""

    name: str
    """Its name in the table of docs/reliability.md."""
    unit: str
    """The name of the things that it plays one after another, in the plural."""
    cases: Callable[[str], Iterable[tuple[str, Play]]]
    """Returns what it plays for an invariant, each with its name."""

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Play until something fails by this invariant's name.

        Raises:
            Survived: nothing did.
        """
        others: set[str] = set()
        played = 0
        for where, play in self.cases(invariant):
            played += 1
            try:
                play(ports)
            except (Failure, InvariantViolation) as error:
                if error.name == invariant:
                    return Caught(where, played, play)
                others.add(error.name)
        raise Survived(
            f"{played} {self.unit}, none failed by {invariant}; others: {sorted(others)}"
        )


@contextmanager
def _named(invariant: str) -> Generator[None]:
    """Let any failure of a block count as that of the invariant which it is named for."""
    try:
        yield
    except Exception as error:
        raise InvariantViolation(invariant, repr(error)) from error


# --- the simulator -------------------------------------------------------------------------------


def _seeds(_invariant: str) -> Iterator[tuple[str, Play]]:
    return ((f"seed {seed}", partial(_seed, seed)) for seed in range(1_500))


def _seed(seed: int, ports: Ports) -> None:
    simulate(seed, ports=ports)


# --- the conformance suite on the memory driver --------------------------------------------------


class MutantFactory(MemoryFactory):
    """Opens stores of the memory driver with a bug."""

    def __init__(self, folder: Path, port: StorePort) -> None:
        super().__init__(folder)
        self.port = port

    async def at(self, url: str) -> Store:
        mutant = self.port(await super().at(url), self.runtime)
        self.opened[id(mutant)] = (mutant, url)
        return mutant


CASE_S_MAX = 20.0
"""A case that takes longer hangs, which is a failure."""


def _cases(invariant: str) -> Iterator[tuple[str, Play]]:
    """Yield the cases that are named for an invariant; drawn programs are a check of their own."""
    for owner in Cases.__subclasses__():
        for name, function in vars(owner).items():
            if invariant in invariants_of(name) and "_D1_" not in name:
                marks = getattr(function, "pytestmark", ())
                sets = [mark.args for mark in marks if mark.name == "parametrize"]
                for values in product(*(list(given) for _, given in sets)):
                    given: dict[str, Any] = {}
                    for (names, _), value in zip(sets, values, strict=True):
                        one = isinstance(names, str)
                        given |= {names: value} if one else dict(zip(names, value, strict=True))
                    yield name, partial(_case, invariant, owner, name, given)


def _case(
    invariant: str, owner: type[Cases], name: str, given: Mapping[str, Any], ports: Ports
) -> None:
    with tempfile.TemporaryDirectory() as folder, _named(invariant):
        factory = MutantFactory(Path(folder), ports.driver)
        asyncio.run(_call(getattr(owner(), name), given, factory))


async def _call(function: Any, given: Mapping[str, Any], factory: MutantFactory) -> None:
    wanted = inspect.signature(function).parameters
    arguments = dict(given)
    try:
        async with asyncio.timeout(CASE_S_MAX):
            if "store" in wanted:
                arguments["store"] = await factory.open()
            if "open_store" in wanted:
                arguments["open_store"] = factory
            await function(**arguments)
    except (pytest.fail.Exception, pytest.skip.Exception) as outcome:
        # They are no `Exception`, so that tests don't catch them by accident; here they are a result.
        raise AssertionError(str(outcome)) from outcome
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await factory.close()


# --- drawn programs on the mutant and on the reference side by side ------------------------------


def _programs(invariant: str) -> Iterator[tuple[str, Play]]:
    return ((f"programs from {seed}", partial(_explore, invariant, seed)) for seed in range(1, 7))


def _explore(invariant: str, seed: int, ports: Ports) -> None:
    async def explore(folder: Path) -> None:
        subject = Subject(MutantFactory(folder, ports.driver))
        try:
            await Explorer(subject, shrink_s=0.3).explore(seed, programs=10, steps=50)
        finally:
            await subject.drop()
            await subject.factory.close()

    with tempfile.TemporaryDirectory() as folder, _named(invariant):
        asyncio.run(explore(Path(folder)))


# --- workloads on memory, crashed at each commit in turn -----------------------------------------


def _crashes(invariant: str) -> Iterator[tuple[str, Play]]:
    for name in ("diamond", "re-plan"):
        commits = sum(on_memory(PLAIN[name]).world.commits)
        for at, side in product(range(1, commits + 1), Side):
            crash = Crash(at, side, Fate.RESTARTS)
            yield (
                f"{name}, commit {at}, {side.name.lower()}",
                partial(_crash, invariant, name, crash),
            )


def _crash(invariant: str, name: str, crash: Crash, ports: Ports) -> None:
    with _named(invariant):
        assert on_memory(PLAIN[name], crash, driver=ports.driver).end == on_memory(PLAIN[name]).end


# --- SQLite on a disk that forgets what was not synced -------------------------------------------

CUTS = 6
_synchronous = [""]
"""The setting of `synchronous`; empty: the driver's own."""


@contextmanager
def with_synchronous_normal() -> Generator[None]:
    """Open SQLite with `synchronous=NORMAL`, as most guides to WAL say."""
    _synchronous.append("NORMAL")
    try:
        yield
    finally:
        _synchronous.pop()


def _cuts(_invariant: str) -> Iterator[tuple[str, Play]]:
    yield f"{CUTS} power cuts", _cut


def _cut(_ports: Ports) -> None:
    setting = Setting("power cuts", sqlite, Durability.POWER, plant=_synchronous[-1])
    with disk() as fresh, tempfile.TemporaryDirectory() as folder, sqlite(fresh) as powered:
        series = Series(Part(setting, range(CUTS)), fresh, powered, Path(folder))
        while series.cuts < CUTS and not series.lost:
            series.cut()
        series.end()
    holds(not series.lost, "S3", series.lost, "of", series.acknowledged, "commits were lost")


SIMULATED = Check("simulator", "seeds", _seeds)
SUITE = Check("conformance suite", "cases", _cases)
PROGRAMS = Check("differential programs", "explorations", _programs)
CRASHES = Check("crash points", "crashes", _crashes)
POWER_CUTS = Check("power cuts", "disks", _cuts)


def _small_world(name: str, world: Play) -> Check:
    return Check(name, "worlds", lambda _invariant: [(name, world)])


SMALL_WORLDS = (
    STARVING := _small_world("one busy worker", scenarios.no_run_starves),
    TRIMMED := _small_world("a trimmed run", scenarios.old_cursor_is_refused),
    STALLED := _small_world("a stalled watcher", scenarios.stalled_watcher_holds_one_page),
    FAILED_SYNC := _small_world("failing fsync", scenarios.failed_sync_stops_the_store),
)
