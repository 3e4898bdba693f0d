"""Crash points: every commit of twelve workloads, on every driver, before it, after it and unknown.

Whatever the point, the run recovers without help and comes to the same end as if nothing had happened
(S18): nothing acknowledged is lost (S3), an unknown commit counts once (S4), no task is accepted twice
and none tried more often than it may be (S7, S12, S13), the effect of an AT_MOST_ONCE task takes place
once.

What is compared is the end of a run without any crash, played on memory in virtual time: statuses, plans,
result bytes, inputs with their answers, budgets, what was used of them, and how often each lasting event
happened; of a fork, its own and its parent's; and the world outside. The attempts that led there are not
in it, for there a crash may make a difference: a worker that began an AT_MOST_ONCE step and then vanished
leaves an unknown outcome, one that survived reports it. Either way the task comes to the same result, for
a RECONCILE step or a person that checks the unknown one finds what really took place: so the two
ends are equal, and not merely both allowed. That run has unknown outcomes of its own, so that the commits
which settle them are crash points, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from stepwell.core.port import Commit, CommitResult
from stepwell_testkit.proxy import StoreProxy
from tests.contract.conformance.conftest import (
    RemoteMemoryFactory,
    RemoteSqliteFactory,
    SqliteFactory,
)
from tests.contract.conformance.postgres import PostgresFactory
from tests.contract.conformance.redis import RedisClusterFactory, RedisFactory
from tests.contract.conformance.urls import UrlFactory
from tests.simulation.crash_points import (
    SEED,
    Crashes,
    DriverStore,
    Played,
    Tally,
    in_virtual_time,
    on_memory,
    points_of,
    replay_command,
    seed,
    some,
    wanted,
)
from tests.simulation.crash_workloads import ALL
from tests.simulation.crash_workloads import PLAIN as WORKLOADS
from tests.simulation.crashing import Crash, Fate, Side
from tests.simulation.simulator import Rng
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import chunks, size

__all__ = ["WORKLOADS", "in_virtual_time"]

HERE = "tests/simulation/test_crash_points.py"
ON_MEMORY = f"{HERE}::test_S3_S4_S7_S12_S13_S18_a_crash_at_any_commit_changes_no_end_on_memory"
ON_A_DRIVER = f"{HERE}::test_S3_S4_S7_S12_S13_S18_D1_a_crash_at_a_commit_changes_no_end"
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


@cache
def whole(name: str) -> Played:
    """Return the run without a crash."""
    played = on_memory(ALL[name])
    assert played.world.lives == 1
    return played


def check(name: str, played: Played, command: str) -> None:
    """Check the end of a run."""
    assert played.end == whole(name).end, command


def record(driver: str, command: str, tally: Tally, began: float) -> None:
    """Write down what was played."""
    print(f"{driver}: {dict(tally.figures)}, {SEED}={seed()}")
    keep(
        Record(
            proof=f"crash points, {driver}",
            command=command,
            figures=tally.figures,
            happened=+tally.happened,
            seconds=time.monotonic() - began,
            seed=seed(),
        )
    )


@pytest.mark.proof
@pytest.mark.parametrize("name", ALL)
def test_S3_S4_S7_S12_S13_S18_a_crash_at_any_commit_changes_no_end_on_memory(name: str) -> None:
    began, tally = time.monotonic(), Tally()
    (commits,) = whole(name).world.commits
    assert commits >= 4

    def drawn() -> list[Crashes]:
        each = [
            (Crash(at, side, fate),)
            for at, side in points_of(commits)
            for fate in (Fate if side.kills else [Fate.SURVIVES])
        ]
        percent = size("crash points on memory, percent")
        return some(each, percent, Rng(f"{seed()} memory {name}"))

    for crashes in wanted(drawn):
        command = replay_command(f"{ON_MEMORY}[{name}]", crashes)
        played = on_memory(ALL[name], *crashes)
        check(name, played, command)
        # In virtual time nothing but the crash is otherwise: each is met.
        met = sum(played.world.happened.values())
        assert met == len(crashes) or len(crashes) > 1, command
        tally.count(played, crashes)
    record("memory", "make proof ARGS='-k on_memory'", tally, began)


class AnswersEndsLate(StoreProxy):
    """A store in which others see the end of a run a while before its sender is answered."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results = await self.inner.commit(commits)
        if any(commit.run.ended for commit in commits):
            await asyncio.sleep(5.0)
        return results


def test_crash_at_the_last_commit_counts_after_its_end_was_seen() -> None:
    (commits,) = whole("sequence").world.commits
    crash = Crash(commits, Side.AFTER)
    played = on_memory(
        ALL["sequence"], crash, driver=lambda store, _runtime: AnswersEndsLate(store)
    )
    check("sequence", played, "its last commit")
    assert played.world.lives == 2


def a_pair(number: int) -> tuple[str, Crashes]:
    """Draw a workload and two crashes of it, in lives that follow each other."""
    rng = Rng(f"{seed()} pair {number}")
    name = rng.pick(list(ALL))
    (commits,) = whole(name).world.commits

    def crash(sides: list[Side]) -> Crash:
        at = rng.between(1, commits)
        return Crash(at, rng.pick(sides), rng.pick(list(Fate)))

    return name, (crash(KILLING), crash(list(Side)))


@pytest.mark.proof
@pytest.mark.parametrize("numbers", chunks("pairs of crashes", 1_000), ids=str)
def test_S3_S4_S7_S12_S13_S18_two_crashes_change_no_end_on_memory(numbers: range) -> None:
    began, tally = time.monotonic(), Tally()
    for number in numbers:
        name, crashes = a_pair(number)
        played = on_memory(ALL[name], *crashes)
        check(name, played, replay_command(f"{ON_MEMORY}[{name}]", crashes))
        tally.count(played, crashes)
    # The second comes too late where the first life has left little to do.
    assert sum(tally.met.values()) > 1.4 * len(numbers)
    record("pairs on memory", "make proof ARGS='-k two_crashes'", tally, began)


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
async def driver(factory: type[UrlFactory], tmp_path: Path) -> AsyncIterator[DriverStore]:
    made = factory(tmp_path)
    yield DriverStore(made)
    await made.close()


async def until_met(driver: DriverStore, name: str, crashes: Crashes, command: str) -> Played:
    """Play a run until its crash is met: where outcomes meet in one commit the last points don't come."""
    tries = TRIES_MAX
    while True:
        played = await driver.play(ALL[name], *crashes)
        check(name, played, command)
        tries -= 1
        if played.world.happened or not tries:
            return played


@pytest.mark.proof
@pytest.mark.parametrize(("factory", "name"), plays(), ids=one_id)
async def test_S3_S4_S7_S12_S13_S18_D1_a_crash_at_a_commit_changes_no_end(
    factory: type[UrlFactory], name: str, driver: DriverStore
) -> None:
    began, tally = time.monotonic(), Tally()
    await asyncio.to_thread(whole, name)
    again = f"{ON_A_DRIVER}[{factory.name}-{name}]"
    # On a real clock what meets in one commit there may be two here: so the points are this driver's.
    undisturbed = await driver.play(ALL[name])
    check(name, undisturbed, f"without any crash: {again}")
    (commits,) = undisturbed.world.commits
    on_a_file = factory is SqliteFactory
    percent = size(f"crash points{' on SQLite' * on_a_file}, percent")

    def drawn() -> list[Crashes]:
        rng = Rng(f"{seed()} {factory.name} {name}")
        points = some(points_of(commits), percent, rng)
        return [(Crash(at, side, rng.pick(list(Fate))),) for at, side in points]

    for crashes in wanted(drawn):
        tally.count(await until_met(driver, name, crashes, replay_command(again, crashes)), crashes)
    assert sum(tally.met.values()) >= tally.figures["points"] / 2
    record(factory.name, f"make proof ARGS='-k {factory.name} {HERE}'", tally, began)
