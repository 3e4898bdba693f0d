"""Checks that play mutants: the project's proofs, each until something named for an invariant fails."""

from __future__ import annotations

import asyncio
import inspect
import re
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell_testkit.conformance.catalog import invariants_of
from stepwell_testkit.conformance.harness import Cases
from tests.chaos.disk.disk import disk
from tests.chaos.disk.powered import sqlite
from tests.chaos.disk.series import Part, Series, Setting
from tests.contract.conformance.conftest import MemoryFactory
from tests.contract.differential import Explorer, Program, ProgramFailed, Subject, replay
from tests.mutants.changes import StorePort
from tests.simulation.crash_points import on_memory
from tests.simulation.crash_workloads import PLAIN
from tests.simulation.crashing import Crash, Fate, Side
from tests.simulation.simulator import Failure, InvariantViolation, Ports, simulate
from tests.simulation.simulator.ports import HONEST


class Caught(NamedTuple):
    """A check that failed by the name of an invariant."""

    where: str
    """The seed, case, program or crash that failed."""
    played: int
    """The number that was played until then, this one counted."""
    again: Callable[[Ports], None]
    """Plays that one again, with other ports; raises if it fails."""


class Survived(Exception):
    """Nothing failed by the name of the invariant."""


class Check(Protocol):
    """One of the project's proofs."""

    @property
    def name(self) -> str:
        """Its name in the table of docs/reliability.md."""
        ...

    @property
    def unit(self) -> str:
        """The name of the things that it plays one after another, in the plural."""
        ...

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Play until something fails by this invariant's name.

        Raises:
            Survived: nothing did.
        """
        ...


class Simulated(NamedTuple):
    """The simulator, seed after seed."""

    seeds: int = 300
    name: str = "simulator"
    unit: str = "seeds"

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Play seeds from 0 on."""
        others: set[str] = set()
        for seed in range(self.seeds):
            try:
                simulate(seed, ports=ports)
            except Failure as failure:
                if failure.name == invariant:
                    return Caught(f"seed {seed}", seed + 1, partial(_play_seed, seed))
                others.add(failure.name)
        raise Survived(f"no seed of {self.seeds} failed by {invariant}; others: {sorted(others)}")


def _play_seed(seed: int, ports: Ports) -> None:
    simulate(seed, ports=ports)


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
_DRAWN = re.compile(r"_D1_")
"""Drawn programs are a check of their own."""


class Case(NamedTuple):
    """A case of the conformance suite with its parameters."""

    owner: type[Cases]
    name: str
    parameters: Mapping[str, Any]


class Conforming(NamedTuple):
    """The conformance suite on the memory driver: the cases named for the invariant."""

    name: str = "conformance suite"
    unit: str = "cases"

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Play the cases in their order."""
        played = 0
        for case in cases_of(invariant):
            played += 1
            again = partial(_play_case, case)
            try:
                again(ports)
            except Exception:
                return Caught(case.name, played, again)
        raise Survived(f"no case of {played} failed")


def cases_of(invariant: str) -> Iterator[Case]:
    """Return the suite's cases that are named for an invariant, but for drawn programs."""
    for owner in Cases.__subclasses__():
        for name, function in vars(owner).items():
            if invariant in invariants_of(name) and not _DRAWN.search(name):
                for parameters in _parameters(function):
                    yield Case(owner, name, parameters)


def _parameters(function: Any) -> Iterator[dict[str, Any]]:
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    names = [mark.args[0] for mark in marks]
    for values in product(*(list(mark.args[1]) for mark in marks)):
        yield dict(zip(names, values, strict=True))


def _play_case(case: Case, ports: Ports) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_call(case, MutantFactory(Path(folder), ports.driver)))


async def _call(case: Case, factory: MutantFactory) -> None:
    function = getattr(case.owner(), case.name)
    wanted = inspect.signature(function).parameters
    arguments = dict(case.parameters)
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


class Differential(NamedTuple):
    """Drawn programs on the mutant and on the reference side by side."""

    programs: int = 60
    name: str = "differential programs"
    unit: str = "programs"

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Play programs until one is answered differently; the proof is named for D1."""
        assert invariant == "D1"
        explorers: list[Explorer] = []

        async def explore(subject: Subject) -> None:
            explorers.append(Explorer(subject, shrink_s=0.3))
            await explorers[0].explore(1, programs=self.programs, steps=50)

        try:
            _on_a_mutant(ports, explore)
        except ProgramFailed as failed:
            where = f"a program of {len(failed.program.calls)} calls"
            return Caught(where, explorers[0].played, partial(_replay, failed.program))
        raise Survived(f"no program of {self.programs} failed")


def _replay(program: Program, ports: Ports) -> None:
    _on_a_mutant(ports, lambda subject: replay(subject, program))


def _on_a_mutant(ports: Ports, play: Callable[[Subject], Coroutine[Any, Any, None]]) -> None:
    async def on_a_subject(folder: Path) -> None:
        subject = Subject(MutantFactory(folder, ports.driver))
        try:
            await play(subject)
        finally:
            await subject.drop()
            await subject.factory.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(on_a_subject(Path(folder)))


class CrashPoints(NamedTuple):
    """Workloads on memory, crashed at each commit in turn."""

    workloads: tuple[str, ...] = ("diamond", "re-plan")
    name: str = "crash points"
    unit: str = "crashes"

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Crash until a run does not come to the end of one without a crash: S18."""
        assert invariant == "S18"
        played = 0
        for name in self.workloads:
            whole = on_memory(PLAIN[name])
            for at, side in product(range(1, sum(whole.world.commits) + 1), Side):
                played += 1
                again = partial(_crash, name, Crash(at, side, Fate.RESTARTS))
                try:
                    again(ports)
                except Exception:
                    return Caught(f"{name}, commit {at}, {side.name.lower()}", played, again)
        raise Survived(f"no crash of {played} changed an end")


def _crash(name: str, crash: Crash, ports: Ports) -> None:
    end = on_memory(PLAIN[name], crash, driver=ports.driver).end
    assert end == on_memory(PLAIN[name]).end, f"S18: {name}, {crash}"


class PowerCuts(NamedTuple):
    """SQLite on a disk that forgets what was not synced, at this setting of `synchronous`."""

    synchronous: str
    cuts: int = 6
    name: str = "power cuts"
    unit: str = "cuts"

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Cut power until something acknowledged is lost: S3."""
        assert (ports, invariant) == (HONEST, "S3")
        series = self._cut(self.synchronous)
        if not series.lost:
            raise Survived(f"nothing was lost in {self.cuts} cuts")
        where = f"{series.lost} of {series.acknowledged} acknowledged commits were lost"
        return Caught(where, series.cuts, lambda _honest: self._keeps_all())

    def _keeps_all(self) -> None:
        assert not self._cut("").lost, "S3"

    def _cut(self, synchronous: str) -> Series:
        setting = Setting(self.name, sqlite, Durability.POWER, plant=synchronous)
        with disk() as fresh, tempfile.TemporaryDirectory() as folder, sqlite(fresh) as powered:
            series = Series(Part(setting, range(self.cuts)), fresh, powered, Path(folder))
            while series.cuts < self.cuts and not series.lost:
                series.cut()
            series.end()
        return series


class Scenario(NamedTuple):
    """A small world of tests/mutants/scenarios.py."""

    name: str
    world: Callable[[Ports], None]
    unit: str = "worlds"

    def play(self, ports: Ports, invariant: str) -> Caught:
        """Play it once."""
        try:
            self.world(ports)
        except InvariantViolation as violation:
            if violation.name == invariant:
                return Caught(violation.message, 1, self.world)
            raise Survived(f"it failed by {violation}") from violation
        raise Survived("it held")
