"""Playing crash points: on memory in virtual time, and on any driver behind its conformance factory.

A factory's clock is moved by hand, so that a lease of seconds is over at once. All runs of a test share
one store, each in a tenant of its own; the store object is opened anew for each life of an executor.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import NamedTuple, TypeVar

from stepwell.core.port import Runtime, Store
from stepwell.core.records.states import TaskStatus
from stepwell.store.opener import open_store
from stepwell_testkit.conformance.harness import StoreFactory
from tests.simulation.crashing import Crash, CrashWorld, End, Fate, Side
from tests.simulation.simulator import Rng, VirtualLoop
from tests.simulation.simulator.ports import HONEST
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.workloads import Workload
from tests.support.proofs.sizes import SCALE

SEED = "STEPWELL_CRASH_SEED"
ONLY = "STEPWELL_CRASH_ONLY"
"""Plays this crash, or these two, and no other: `7 AFTER VANISHES, 3 BEFORE SURVIVES`."""

T = TypeVar("T")
Crashes = tuple[Crash, ...]
Point = tuple[int, Side]


class Played(NamedTuple):
    """The end of a run, and the world that it was played in."""

    end: End
    world: CrashWorld


def in_virtual_time(work: Coroutine[object, object, T]) -> T:
    """Run it to its end on a loop of its own, without any waiting."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def _on_memory(
    workload: Workload, crashes: Sequence[Crash], driver: Callable[[Store, Runtime], Store]
) -> Played:
    runtime = SimRuntime(asyncio.get_running_loop(), Rng("store"))
    keeper = await open_store("memory://crash-points", runtime=runtime)

    async def open_again() -> Store:
        return driver(await open_store("memory://crash-points", runtime=runtime), runtime)

    world = CrashWorld(workload, open_again, crashes)
    try:
        return Played(await world.play(), world)
    finally:
        await keeper.close()


def on_memory(
    workload: Workload,
    *crashes: Crash,
    driver: Callable[[Store, Runtime], Store] = HONEST.driver,
) -> Played:
    """Play a run on a memory store of its own, with what stands in the driver's place."""
    return in_virtual_time(_on_memory(workload, crashes, driver))


class DriverStore:
    """One store of a factory, opened anew whenever it is asked for."""

    def __init__(self, factory: StoreFactory) -> None:
        self.factory = factory
        self._store: Store | None = None
        self._tenants = itertools.count(1)

    async def open(self) -> Store:
        """Close the store and return it opened again."""
        store = self._store
        self._store = await (self.factory.reopen(store) if store else self.factory.open())
        return self._store

    async def play(self, workload: Workload, *crashes: Crash) -> Played:
        """Play a run for a tenant that has no other."""
        key = (f"tenant-{next(self._tenants)}", "run")
        world = CrashWorld(workload, self.open, crashes, key=key, advance=self.factory.advance)
        return Played(await world.play(), world)


class Tally:
    """Counts what was played and what was met."""

    def __init__(self) -> None:
        self.figures: Counter[str] = Counter(points=0, crashes=0, unknown=0, wrong=0)
        self.met: Counter[Side] = Counter()
        self.happened: Counter[str] = Counter()

    def count(self, played: Played, crashes: Crashes) -> None:
        """Count a run that came to the right end."""
        world = played.world
        self.met += world.happened
        kills = sum(many for side, many in world.happened.items() if side.kills)
        self.figures["points"] += len(crashes)
        self.figures["crashes"] += kills
        self.figures["unknown"] += world.happened.total() - kills
        self.happened["unknown commit that was applied"] += world.happened[Side.APPLIED]
        self.happened["unknown commit that was not applied"] += world.happened[Side.LOST]
        self.happened["commit_id seen again"] += sum(many > 1 for many in world.applied.values())
        self.happened["poison quarantine"] += _quarantined(played)


def _quarantined(played: Played) -> bool:
    """Return whether a step that killed its workers was given up while the others went on."""
    tasks = dict(played.end.runs[0].tasks)
    poison = tasks.pop("poison", None)
    others = {status for status, *_ in tasks.values()}
    failed = poison is not None and poison[0] is TaskStatus.FAILED
    return failed and played.world.deaths > 0 and others == {TaskStatus.COMPLETED}


def seed() -> str:
    """Return what the drawn points follow from."""
    return os.environ.get(SEED, "1")


def some(points: Sequence[T], percent: int, rng: Rng) -> list[T]:
    """Return this share of them in their order, at least one; all of them at 100."""
    count = max(1, -(-len(points) * percent // 100))
    chosen = sorted(rng.sample(range(len(points)), count))
    return [points[index] for index in chosen]


def points_of(commits: int) -> list[Point]:
    """Return all points of a run of so many commits."""
    return list(itertools.product(range(1, commits + 1), Side))


def wanted(drawn: Callable[[], list[Crashes]]) -> list[Crashes]:
    """Return the drawn crashes, or those that the environment names."""
    only = os.environ.get(ONLY)
    if only is None:
        return drawn()
    named = (text.split() for text in only.split(","))
    return [tuple(Crash(int(at), Side[side], Fate[fate]) for at, side, fate in named)]


def replay_command(test: str, crashes: Crashes) -> str:
    """Return what plays a crash again."""
    text = ", ".join(f"{one.at} {one.side.name} {one.fate.name}" for one in crashes)
    return f"replay: {SCALE}=proof {ONLY}='{text}' python -m pytest '{test}'"
