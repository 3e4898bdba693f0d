"""Servers of a store die and others take over: what was acknowledged outlives that, where the class says so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
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
from tests.chaos.load.chains import opened
from tests.chaos.load.players import Load
from tests.chaos.oracle.history import TENANT
from tests.simulation.simulator.violation import InvariantViolation
from tests.support.backends.child import memory_folder, until
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.postgres_pair import PostgresPair
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.shared import redis_cluster, shared
from tests.support.patience import PATIENCE_S
from tests.support.proofs.record import note
from tests.support.proofs.sizes import chunks, size

pytestmark = [pytest.mark.proof, pytest.mark.timeout(300)]

STORES = 3
"""Open stores of one load."""
MORE = 40
"""So many commits between two blows."""
IMPATIENT = {
    "connect_timeout_ms": "500",
    "statement_timeout_ms": "500",
    "lock_timeout_ms": "200",
}
"""A silent Postgres is given up in seconds."""
MOVES = 3 * size("fail-overs")
MOVES_MAX = 20 * MOVES
"""A move may miss calls that are made meanwhile, so there are further moves until each answer was
given, up to a limit.
"""
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
        written = [KEYS.of_run(TENANT, run_id).partition for run_id in load.runs[-4:]]
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


@asynccontextmanager
async def loaded(url: str, folder: Path, **how: Any) -> AsyncIterator[tuple[Load, Sequence[Store]]]:
    """A load on several open stores."""
    async with AsyncExitStack() as stack:
        openings = [opened(url, patient=True) for _ in range(STORES)]
        stores = [await stack.enter_async_context(one) for one in openings]
        yield await stack.enter_async_context(Load(stores, folder, f"{SEED}", **how)), stores


async def struck(load: Load, strike: Strike, blows: range) -> Counter[str]:
    """Strike so often under load; returns the ways."""
    ways: Counter[str] = Counter()
    for at in blows:
        await load.more(MORE)
        ways[await strike(load, at)] += 1
    await load.more(MORE)
    print(ways, load.seen)
    return ways


def figures(load: Load, what: str, many: int) -> dict[str, int]:
    return {what: many, "acknowledged commits": load.seen["COMMITTED"]}


@pytest.mark.parametrize("part", chunks("fail-overs", 4), ids=lambda part: f"{part.start}")
@pytest.mark.parametrize("kind", SAFE)
async def test_S3_nothing_acknowledged_is_lost_when_leading_servers_die(
    backends: None, rnd: Random, tmp_path: Path, kind: str, part: range
) -> None:
    early = kind.startswith("redis")
    async with (
        SAFE[kind](rnd) as place,
        loaded(place.url, tmp_path, shows_early=early) as (load, stores),
    ):
        assert (await stores[0].describe()).durability is Durability.NODE
        ways = await struck(load, place.strike, part)
        findings = await load.check(stores[0])
    happened = ways + findings.seen
    note(f"fail-overs, {kind}", figures(load, "fail-overs", ways.total()), happened, SEED)


@pytest.mark.skipif(size("fail-overs") < 2, reason="servers of its own: make proof")
@pytest.mark.parametrize("kind", LOSING)
async def test_losses_show_where_the_class_promises_no_more(
    backends: None, rnd: Random, tmp_path: Path, kind: str
) -> None:
    """Or the other proof shows nothing: an acknowledged commit is gone, or another one stands in its place."""
    early = kind.startswith("redis")
    async with (
        LOSING[kind](rnd) as place,
        loaded(place.url, tmp_path, shows_early=early) as (load, stores),
    ):
        assert (await stores[0].describe()).durability is Durability.POWER
        ways = await struck(load, place.strike, range(1))
        with pytest.raises(InvariantViolation) as caught:
            await load.check(stores[0])
    assert caught.value.name in {"S2", "S3"}, caught.value
    found = {**figures(load, "fail-overs", ways.total()), "losses found": 1}
    note(f"fail-overs, {kind}", found, ways, SEED)


@pytest.mark.proof(meets=["MOVED seen", "ASK seen"])
async def test_S3_slots_moved_at_full_speed_lose_and_double_nothing(
    cluster: RedisCluster, rnd: Random, tmp_path: Path
) -> None:
    moves = 0
    for node in cluster.nodes:
        node.execute("CONFIG", "RESETSTAT")
    async with loaded(cluster.url(all_nodes=True), tmp_path) as (load, stores):
        while moves < MOVES or (missing(cluster) and moves < MOVES_MAX):
            await load.more(8)
            await asyncio.to_thread(move, cluster, rnd)
            moves += 1
        await load.more(MORE)
        await load.check(stores[0])
    assert not missing(cluster), f"not met in {moves} moves"
    note("resharding, redis+cluster", figures(load, "slots moved", moves), refusals(cluster), SEED)


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
