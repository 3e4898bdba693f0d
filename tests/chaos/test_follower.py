"""What a watcher may see and lose: where the store says so, and only what was sent and never acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from stepwell.core.records.events import Event
from stepwell.core.records.states import EventType
from tests.chaos.load.follower import Follower
from tests.chaos.world.cluster import Cluster
from tests.chaos.world.stores import Shared
from tests.simulation.simulator.violation import InvariantViolation

BORN = Event(number=1, version=1, type=EventType.RUN_STARTED)
LOST = Event(number=2, version=2, type=EventType.EXECUTION_LEASED)
KEPT = Event(number=2, version=2, type=EventType.TASK_COMPLETED)
LATER = Event(number=3, version=3, type=EventType.RUN_SUCCEEDED)


class Calm(Random):
    """A watcher with it stays where it is."""

    def random(self) -> float:
        return 0.99


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of which nothing is started."""
    cluster = Cluster(tmp_path, Shared("memory://"))
    yield cluster
    cluster.close()


def _follower(cluster: Cluster, *, may_lose: bool) -> Follower:
    return Follower(cluster, "run", Calm(), may_lose=may_lose)


@pytest.mark.parametrize("seen_again", [False, True])
async def test_E2_what_was_seen_and_lost_is_let_pass_where_the_store_may_lose_it(
    cluster: Cluster, seen_again: bool
) -> None:
    follower = _follower(cluster, may_lose=True)
    await follower._take([BORN, LOST], 0)
    if seen_again:
        await follower._take([KEPT], 1)
    follower.check([BORN, KEPT], [BORN, LOST, KEPT])
    assert follower.seen["event seen and lost"] == 1


async def test_E2_an_end_that_was_seen_and_lost_is_let_pass_where_the_run_then_took_longer(
    cluster: Cluster,
) -> None:
    """A watcher that was told of the run's end has left by the time it comes to another one."""
    follower = _follower(cluster, may_lose=True)
    await follower._take([BORN, LOST], 0)
    follower.check([BORN, KEPT, LATER], [BORN, LOST, KEPT, LATER])
    assert follower.seen["event seen and lost"] == 1


async def test_E2_a_watcher_that_missed_the_end_is_accused_though_the_store_may_lose(
    cluster: Cluster,
) -> None:
    follower = _follower(cluster, may_lose=True)
    await follower._take([BORN, KEPT], 0)
    with pytest.raises(InvariantViolation, match="E2"):
        follower.check([BORN, KEPT, LATER], [BORN, KEPT, LATER])


async def test_E2_what_nobody_sent_is_accused_all_the_same(cluster: Cluster) -> None:
    follower = _follower(cluster, may_lose=True)
    await follower._take([BORN, LOST], 0)
    with pytest.raises(InvariantViolation, match="E2"):
        follower.check([BORN, KEPT], [BORN, KEPT])


async def test_E2_a_store_that_loses_nothing_shows_nothing_else(cluster: Cluster) -> None:
    follower = _follower(cluster, may_lose=False)
    await follower._take([BORN, LOST], 0)
    with pytest.raises(InvariantViolation, match="E2"):
        follower.check([BORN, KEPT], [BORN, LOST, KEPT])
    with pytest.raises(InvariantViolation, match="E2"):
        await follower._take([KEPT], 1)
