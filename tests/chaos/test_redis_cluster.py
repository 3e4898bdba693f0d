"""A cluster of three masters with a replica each: masters die, slots move, and work goes on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from random import Random

import pytest

from stepwell.core.records.states import Durability
from stepwell_testkit.conformance.builders import TENANT
from tests.chaos.conftest import SEED
from tests.chaos.faults.fail_overs import KEYS, WAIT_MS, WAYS, fail_over, lose_master, move, pair_of
from tests.chaos.load.authors import Load
from tests.support.backends.cluster import RedisCluster
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import size

pytestmark = pytest.mark.proof

RUNS = 8
MORE = 4
"""So many commits of each run between two blows."""
FAIL_OVERS = size("fail-overs")
MOVES = 3 * FAIL_OVERS
MOVES_MAX = 20 * MOVES
"""A move may miss what is asked meanwhile: there are more until each answer was given, though not for ever."""
MOVED_MEANWHILE = ("MOVED seen", "ASK seen", "TRYAGAIN seen")
COMMAND = "make proof ARGS='-k {}'"


@pytest.mark.timeout(300)
async def test_S3_with_wait_nothing_acknowledged_is_lost_when_masters_die(
    cluster: RedisCluster, rnd: Random
) -> None:
    began = time.monotonic()
    how: Counter[str] = Counter()
    async with Load(cluster.url(all_nodes=True, wait="1", wait_ms=WAIT_MS), RUNS) as load:
        assert (await load.doors[0].describe()).durability is Durability.NODE
        for at in range(FAIL_OVERS):
            await load.more(MORE)
            way = WAYS[at % len(WAYS)]
            await asyncio.to_thread(fail_over, cluster, rnd, way)
            how[way] += 1
        await load.more(MORE)
        found = await load.check()
    print(how, found)
    assert found.lost == 0
    keep(
        Record(
            "fail-overs, redis+cluster with wait=1",
            COMMAND.format("with_wait"),
            {
                "fail-overs": how.total(),
                "acknowledged commits": found.acknowledged,
                "lost": found.lost,
            },
            found.seen + how,
            time.monotonic() - began,
            str(SEED),
        )
    )


async def test_without_wait_what_no_replica_had_is_lost_and_the_class_promises_no_more(
    cluster: RedisCluster, rnd: Random
) -> None:
    began = time.monotonic()
    async with Load(cluster.url(all_nodes=True), RUNS, may_lose=True) as load:
        assert (await load.doors[0].describe()).durability is Durability.POWER
        written = [KEYS.of_run(TENANT, one.run_id).partition for one in load.authors]
        for _ in range(FAIL_OVERS):
            await load.more(MORE)
            master, heir = await asyncio.to_thread(pair_of, cluster, rnd, written)
            await asyncio.to_thread(cluster.nodes[heir].cut_off)
            # Acknowledged by the master alone.
            await load.more(MORE)
            await asyncio.to_thread(lose_master, cluster, master, heir)
        await load.more(MORE)
        found = await load.check()
    print(found)
    assert found.lost, "no loss was made, so that the other proof shows nothing"
    keep(
        Record(
            "fail-overs, redis+cluster without",
            COMMAND.format("without_wait"),
            {
                "fail-overs": FAIL_OVERS,
                "acknowledged commits": found.acknowledged,
                "lost": found.lost,
            },
            found.seen,
            time.monotonic() - began,
            str(SEED),
        )
    )


@pytest.mark.proof(meets=["MOVED seen", "ASK seen"])
async def test_S3_slots_that_move_at_full_speed_lose_and_double_nothing(
    cluster: RedisCluster, rnd: Random
) -> None:
    began = time.monotonic()
    moves = 0
    for node in cluster.nodes:
        node.execute("CONFIG", "RESETSTAT")
    async with Load(cluster.url(all_nodes=True), RUNS) as load:
        while moves < MOVES or (missing(cluster) and moves < MOVES_MAX):
            await load.more(1)
            await asyncio.to_thread(move, cluster, rnd)
            moves += 1
        await load.more(MORE)
        found = await load.check()
    seen = refusals(cluster)
    print(found, seen)
    assert not missing(cluster), f"not met in {moves} moves"
    keep(
        Record(
            "resharding, redis+cluster",
            COMMAND.format("slots_that_move"),
            {"slots moved": moves, "acknowledged commits": found.acknowledged, "lost": found.lost},
            found.seen + seen,
            time.monotonic() - began,
            str(SEED),
        )
    )


def missing(cluster: RedisCluster) -> set[str]:
    """Return which of the answers that tell of a move no node has given."""
    seen = refusals(cluster)
    return {answer for answer in MOVED_MEANWHILE if not seen[answer]}


def refusals(cluster: RedisCluster) -> Counter[str]:
    """Return what nodes have answered to those who asked the wrong one, in their own count."""
    seen: Counter[str] = Counter()
    for node in cluster.nodes:
        for name, counted in node.execute("INFO", "errorstats").items():
            seen[f"{name.removeprefix('errorstat_')} seen"] += int(counted["count"])
    return seen
