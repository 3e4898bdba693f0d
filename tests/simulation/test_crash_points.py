"""Crash points: every commit of fourteen workloads, on every driver, before it, after it and unknown.

Whatever the point, the run recovers without help and comes to the same end as if nothing had
happened (S18): nothing acknowledged is lost (S3), an unknown commit counts once (S4), no task is
accepted twice and none tried more often than it may be (S7, S12, S13), the effect of an
AT_MOST_ONCE task takes place once. A parent's step finds its signal and the ends of its children (W1), each of
which is started once (F1), with its usage counted once (F2).

What is compared is the end of a run without any crash, played on memory in virtual time: statuses,
plans, result bytes, inputs with their answers, budgets, what was used of them, and how often each
lasting event happened; of a fork, its own and its parent's; and the world outside. The attempts
that led there are not in it, for there a crash may make a difference: a worker that began an
AT_MOST_ONCE step and then vanished leaves an unknown outcome, one that survived reports it. Either
way the task comes to the same result, because a RECONCILE step, or a person, finds out what really
took place. The two ends are thus equal, and not merely both allowed. That run has unknown outcomes
of its own, so that the commits which settle them are crash points, too.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from stepwell.core.port import Store
from stepwell.core.records.states import TaskStatus
from tests.contract.conformance.conftest import (
    RemoteMemoryFactory,
    RemoteSqliteFactory,
    SqliteFactory,
)
from tests.contract.conformance.postgres import PostgresFactory
from tests.contract.conformance.redis import RedisClusterFactory, RedisFactory
from tests.contract.conformance.urls import UrlFactory
from tests.simulation.crash_workloads import ALL
from tests.simulation.crashing import Crash, CrashWorld, Fate, Played, Side, on_memory
from tests.simulation.simulator import Rng
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import chunks, size

T = TypeVar("T")
Crashes = tuple[Crash, ...]

SEED = "STEPWELL_CRASH_SEED"
"""Names what the drawn points follow from."""
TRIES_MAX = 3
KILLING = [side for side in Side if side.kills]
FACTORIES: tuple[type[UrlFactory], ...] = (
    SqliteFactory,
    PostgresFactory,
    RedisFactory,
    RedisClusterFactory,
    RemoteMemoryFactory,
    RemoteSqliteFactory,
)


def seed() -> str:
    return os.environ.get(SEED, "1")


def points_of(commits: int) -> list[tuple[int, Side]]:
    """Return all points of a run of so many commits."""
    return list(itertools.product(range(1, commits + 1), Side))


def some(points: Sequence[T], percent: int, rng: Rng) -> list[T]:
    """Return this share of them in their order, at least one; all of them at 100."""
    count = max(1, -(-len(points) * percent // 100))
    chosen = sorted(rng.sample(range(len(points)), count))
    return [points[index] for index in chosen]


@cache
def whole(name: str) -> Played:
    """Return the run without a crash."""
    played = on_memory(ALL[name])
    assert played.world.lives == 1
    return played


def check(name: str, played: Played, what: object) -> None:
    """Check the end of a run."""
    assert played.end == whole(name).end, f"{name}, {what}, {SEED}={seed()}"


class Tally:
    """Counts what was played and what was met."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.figures: Counter[str] = Counter(points=0, crashes=0, unknown=0, wrong=0)
        self.happened: Counter[str] = Counter()

    def count(self, played: Played, crashes: Crashes) -> None:
        """Count a run that came to the right end."""
        world, happened = played.world, self.happened
        kills = sum(world.happened[side] for side in KILLING)
        self.figures["points"] += len(crashes)
        self.figures["crashes"] += kills
        self.figures["unknown"] += world.happened.total() - kills
        happened["unknown commit that was applied"] += world.happened[Side.APPLIED]
        happened["unknown commit that was not applied"] += world.happened[Side.LOST]
        happened["commit_id seen again"] += sum(many > 1 for many in world.applied.values())
        happened["poison quarantine"] += quarantined(played)

    @property
    def met(self) -> int:
        """The number of crashes and unknown outcomes that happened."""
        return self.figures["crashes"] + self.figures["unknown"]

    def keep(self, driver: str, command: str) -> None:
        """Write down what was played."""
        print(f"{driver}: {dict(self.figures)}, {SEED}={seed()}")
        seconds = time.monotonic() - self.began
        proof = f"crash points, {driver}"
        keep(Record(proof, command, self.figures, +self.happened, seconds, seed()))


def quarantined(played: Played) -> bool:
    """Return whether a step that killed its workers was given up while the others went on."""
    tasks = dict(played.end.runs[0].tasks)
    poison = tasks.pop("poison", None)
    others = {status for status, *_ in tasks.values()}
    failed = poison is not None and poison[0] is TaskStatus.FAILED
    return failed and played.world.deaths > 0 and others == {TaskStatus.COMPLETED}


@pytest.mark.proof
@pytest.mark.parametrize("name", ALL)
def test_S3_S4_S7_S12_S13_S18_a_crash_at_any_commit_changes_no_end_on_memory(name: str) -> None:
    tally = Tally()
    (commits,) = whole(name).world.commits
    assert commits >= 4
    each = [
        Crash(at, side, fate)
        for at, side in points_of(commits)
        for fate in (Fate if side.kills else [Fate.SURVIVES])
    ]
    percent = size("crash points on memory, percent")
    for crash in some(each, percent, Rng(f"{seed()} memory {name}")):
        played = on_memory(ALL[name], crash)
        check(name, played, crash)
        # In virtual time nothing but the crash is otherwise: each is met.
        assert played.world.happened.total() == 1, crash
        tally.count(played, (crash,))
    tally.keep("memory", "make proof ARGS='-k on_memory'")


@pytest.mark.proof
@pytest.mark.parametrize("numbers", chunks("pairs of crashes", 1_000), ids=str)
def test_S3_S4_S7_S12_S13_S18_two_crashes_change_no_end_on_memory(numbers: range) -> None:
    tally = Tally()
    for number in numbers:
        rng = Rng(f"{seed()} pair {number}")
        name = rng.pick(list(ALL))
        (commits,) = whole(name).world.commits
        # In lives that follow each other.
        crashes = tuple(
            Crash(rng.between(1, commits), rng.pick(sides), rng.pick(list(Fate)))
            for sides in (KILLING, list(Side))
        )
        played = on_memory(ALL[name], *crashes)
        check(name, played, crashes)
        tally.count(played, crashes)
    # The second comes too late where the first life has left little to do.
    assert tally.met > 1.4 * len(numbers)
    tally.keep("pairs on memory", "make proof ARGS='-k two_crashes'")


class Driver:
    """One store of a factory, reopened for each life of an executor; each run has a tenant of its own.

    The factory's clock is moved by hand, so that a lease of seconds is over at once.
    """

    def __init__(self, factory: UrlFactory) -> None:
        self.factory = factory
        self._store: Store | None = None
        self._tenants = itertools.count(1)

    async def open(self) -> Store:
        """Close the store and return it opened again."""
        store = self._store
        self._store = await (self.factory.reopen(store) if store else self.factory.open())
        return self._store

    async def play(self, name: str, *crashes: Crash) -> Played:
        """Play a run and check its end."""
        key = (f"tenant-{next(self._tenants)}", "run")
        world = CrashWorld(ALL[name], self.open, crashes, key=key, advance=self.factory.advance)
        played = Played(await world.play(), world)
        check(name, played, crashes)
        return played

    async def play_until_met(self, name: str, crash: Crash) -> Played:
        """Play a run until its crash is met: where outcomes meet in one commit the last points don't come."""
        for _ in range(TRIES_MAX - 1):
            played = await self.play(name, crash)
            if played.world.happened:
                return played
        return await self.play(name, crash)


def plays() -> list[tuple[type[UrlFactory], str]]:
    """Return each driver with the workloads that are played on it: all of them, or those drawn."""
    pairs: list[tuple[type[UrlFactory], str]] = []
    for factory in FACTORIES:
        chosen = Rng(f"{seed()} {factory.name}").sample(list(ALL), size("crash workloads"))
        pairs += [(factory, name) for name in ALL if name in chosen]
    return pairs


def one_id(value: object) -> str:
    return value.name if isinstance(value, type) and issubclass(value, UrlFactory) else str(value)


@pytest.fixture
async def driver(factory: type[UrlFactory], tmp_path: Path) -> AsyncIterator[Driver]:
    made = factory(tmp_path)
    yield Driver(made)
    await made.close()


@pytest.mark.proof
@pytest.mark.parametrize(("factory", "name"), plays(), ids=one_id)
async def test_S3_S4_S7_S12_S13_S18_D1_a_crash_at_a_commit_changes_no_end(
    factory: type[UrlFactory], name: str, driver: Driver
) -> None:
    tally = Tally()
    await asyncio.to_thread(whole, name)
    # On a real clock one commit there may be two here, so the points are this driver's.
    (commits,) = (await driver.play(name)).world.commits
    on_a_file = factory is SqliteFactory
    percent = size(f"crash points{' on SQLite' * on_a_file}, percent")
    rng = Rng(f"{seed()} {factory.name} {name}")
    for at, side in some(points_of(commits), percent, rng):
        crash = Crash(at, side, rng.pick(list(Fate)))
        tally.count(await driver.play_until_met(name, crash), (crash,))
    assert tally.met >= tally.figures["points"] / 2
    here = "tests/simulation/test_crash_points.py"
    tally.keep(factory.name, f"make proof ARGS='-k {factory.name} {here}'")
