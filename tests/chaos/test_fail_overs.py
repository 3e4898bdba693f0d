"""Servers of a store die and others take over: what was acknowledged outlives that, where the class says so."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import pytest

from stepwell.core.records.states import Durability
from stepwell_testkit.conformance.builders import TENANT
from tests.chaos.conftest import SEED
from tests.chaos.faults.fail_overs import (
    CUT_OFF_S,
    KEYS,
    PATIENT_MS,
    WAIT_MS,
    WAYS,
    fail_over,
    lose_master,
    move,
    pair_of,
)
from tests.chaos.load.chains import Load
from tests.support.backends.child import memory_folder, until
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.postgres_pair import PostgresPair
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.shared import redis_cluster, shared
from tests.support.patience import PATIENCE_S
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import chunks, size

pytestmark = [pytest.mark.proof, pytest.mark.timeout(300)]

RUNS = 8
MORE = 4
"""So many commits of each run between two blows."""
IMPATIENT = {
    "connect_timeout_ms": "500",
    "statement_timeout_ms": "500",
    "lock_timeout_ms": "200",
}
"""A silent Postgres is given up in seconds."""
MOVES = 3 * size("fail-overs")
MOVES_MAX = 20 * MOVES
"""A move may miss what is asked meanwhile: there are more until each answer was given, though not for ever."""
MOVED_MEANWHILE = ("MOVED seen", "ASK seen", "TRYAGAIN seen")

Strike = Callable[[Load, int], Awaitable[str]]


class Place(NamedTuple):
    """A store of several servers."""

    url: str
    strike: Strike
    """Takes the leading server away and lets another lead; returns in which way."""


@asynccontextmanager
async def _postgres(_rnd: Random) -> AsyncIterator[Place]:
    pair = shared(PostgresPair, inside=memory_folder())

    async def strike(load: Load, at: int) -> str:
        stopped = at % 4 == 3
        # Who was killed refuses whoever comes; who was stopped says nothing to anybody.
        pair.primary.freeze() if stopped else pair.primary.kill()
        old = await asyncio.to_thread(pair.promote)
        await load.more(MORE)
        await asyncio.to_thread(pair.retire, old)
        return "primary stopped" if stopped else "primary killed"

    yield Place(pair.url(pair.primary.new_database(), **IMPATIENT), strike)


@asynccontextmanager
async def _postgres_asynchronous(_rnd: Random) -> AsyncIterator[Place]:
    with PostgresPair(synchronous=False, inside=memory_folder()) as pair:

        async def strike(load: Load, _at: int) -> str:
            await asyncio.to_thread(pair.cut_replication)
            await load.more(MORE)
            pair.primary.kill()
            old = await asyncio.to_thread(pair.promote)
            await load.more(MORE)
            await asyncio.to_thread(pair.retire, old)
            return "primary killed"

        yield Place(pair.url(pair.primary.new_database(), **IMPATIENT), strike)


@asynccontextmanager
async def _cluster(rnd: Random) -> AsyncIterator[Place]:
    cluster = _emptied()

    async def strike(_load: Load, at: int) -> str:
        way = WAYS[at % len(WAYS)]
        await asyncio.to_thread(fail_over, cluster, rnd, way)
        return way

    yield Place(cluster.url(all_nodes=True, wait="1", wait_ms=WAIT_MS), strike)


@asynccontextmanager
async def _cluster_without_wait(rnd: Random) -> AsyncIterator[Place]:
    cluster = _emptied()

    async def strike(load: Load, _at: int) -> str:
        written = [KEYS.of_run(TENANT, one.first.run_id).partition for one in load.chains]
        master, heir = await asyncio.to_thread(pair_of, cluster, rnd, written)
        await asyncio.to_thread(cluster.nodes[heir].cut_off)
        # Acknowledged by the master alone.
        await load.more(MORE)
        await asyncio.to_thread(lose_master, cluster, master, heir)
        return "master killed"

    yield Place(cluster.url(all_nodes=True), strike)


def _emptied() -> RedisCluster:
    cluster = redis_cluster(replicas=1, node_timeout_ms=PATIENT_MS)
    cluster.flush()
    return cluster


@asynccontextmanager
async def _redis_promoted(_rnd: Random) -> AsyncIterator[Place]:
    """One Redis with a replica that somebody promotes; a proxy before them leads to who leads."""
    inside = memory_folder()
    with Redis(inside=inside) as leader, Redis(inside=inside, replica_of=leader) as follower:
        servers = [leader, follower]
        await asyncio.to_thread(_follow, follower, leader)
        async with Proxy(leader.port) as proxy:

            async def strike(_load: Load, _at: int) -> str:
                old, new = servers
                # What the leader acknowledged from here on would be lost for certain.
                new.cut_off()
                await asyncio.sleep(CUT_OFF_S)
                await asyncio.to_thread(old.kill)
                new.let_follow()
                new.execute("REPLICAOF", "NO", "ONE")
                new.primary = None
                proxy.target = new.port
                proxy.cut()
                await asyncio.to_thread(_follow, old, new)
                servers.reverse()
                return "replica promoted by hand"

            yield Place(leader.url(port=proxy.port, wait="1", wait_ms=WAIT_MS), strike)


def _follow(follower: Redis, leader: Redis) -> None:
    """Have it follow, and wait until it has all."""
    follower.primary = leader
    follower.start()

    def is_up() -> bool:
        return follower.execute("INFO", "replication")["master_link_status"] == "up"

    assert until(is_up, PATIENCE_S)


SAFE = {
    "postgres": _postgres,
    "redis+cluster with wait=1": _cluster,
    "redis with wait=1": _redis_promoted,
}
LOSING: dict[str, Any] = {
    "postgres, asynchronous standby": _postgres_asynchronous,
    "redis+cluster without wait": _cluster_without_wait,
}


async def struck(
    url: str, strike: Strike, blows: range, **how: Any
) -> tuple[Load, int, Counter[str]]:
    """Strike so often under load; returns the load, what was lost, and the ways."""
    ways: Counter[str] = Counter()
    async with Load(url, RUNS, **how) as load:
        durability = (await load.stores[0].describe()).durability
        assert durability is (Durability.POWER if how else Durability.NODE)
        for at in blows:
            await load.more(MORE)
            ways[await strike(load, at)] += 1
        await load.more(MORE)
        lost = await load.check()
    print(ways, load.seen, lost)
    return load, lost, ways


def note(
    proof: str, began: float, load: Load, lost: int, happened: Counter[str], **many: int
) -> None:
    figures = {name.replace("_", " "): n for name, n in many.items()}
    figures |= {"acknowledged commits": load.acknowledged, "lost": lost}
    command = "make proof ARGS=tests/chaos/test_fail_overs.py"
    keep(Record(proof, command, figures, load.seen + happened, time.monotonic() - began, str(SEED)))


@pytest.mark.parametrize("part", chunks("fail-overs", 4), ids=lambda part: f"{part.start}")
@pytest.mark.parametrize("kind", SAFE)
async def test_S3_nothing_acknowledged_is_lost_when_leading_servers_die(
    backends: None, rnd: Random, kind: str, part: range
) -> None:
    began = time.monotonic()
    async with SAFE[kind](rnd) as place:
        load, lost, ways = await struck(place.url, place.strike, part)
    assert lost == 0
    note(f"fail-overs, {kind}", began, load, lost, ways, fail_overs=ways.total())


@pytest.mark.skipif(size("fail-overs") < 2, reason="servers of its own: make proof")
@pytest.mark.parametrize("kind", LOSING)
async def test_losses_show_where_the_class_promises_no_more(
    backends: None, rnd: Random, kind: str
) -> None:
    began = time.monotonic()
    async with LOSING[kind](rnd) as place:
        load, lost, ways = await struck(place.url, place.strike, range(1), may_lose=True)
    assert lost, "no loss was made, so that the other proof shows nothing"
    note(f"fail-overs, {kind}", began, load, lost, ways, fail_overs=ways.total())


@pytest.mark.proof(meets=["MOVED seen", "ASK seen"])
async def test_S3_slots_moved_at_full_speed_lose_and_double_nothing(
    cluster: RedisCluster, rnd: Random
) -> None:
    began = time.monotonic()
    ways: Counter[str] = Counter()
    for node in cluster.nodes:
        node.execute("CONFIG", "RESETSTAT")
    async with Load(cluster.url(all_nodes=True), RUNS) as load:
        while ways.total() < MOVES or (missing(cluster) and ways.total() < MOVES_MAX):
            await load.more(1)
            await asyncio.to_thread(move, cluster, rnd)
            ways["slot moved"] += 1
        await load.more(MORE)
        lost = await load.check()
    assert not missing(cluster), f"not met in {ways}"
    moves = ways.total()
    note("resharding, redis+cluster", began, load, lost, refusals(cluster), slots_moved=moves)


def missing(cluster: RedisCluster) -> set[str]:
    """Return which of the answers that come of a move no node has given."""
    seen = refusals(cluster)
    return {answer for answer in MOVED_MEANWHILE if not seen[answer]}


def refusals(cluster: RedisCluster) -> Counter[str]:
    """Return the nodes' own count of what they have refused."""
    seen: Counter[str] = Counter()
    for node in cluster.nodes:
        for name, counted in node.execute("INFO", "errorstats").items():
            seen[f"{name.removeprefix('errorstat_')} seen"] += int(counted["count"])
    return seen
