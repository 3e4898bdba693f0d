"""One Redis with a replica: somebody promotes it by hand, and what stands before them leads there."""

from __future__ import annotations

import asyncio
import time

import pytest

from stepwell.core.records.states import Durability
from tests.chaos.conftest import SEED
from tests.chaos.faults.fail_overs import CUT_OFF_S, WAIT_MS
from tests.chaos.load.authors import Load
from tests.support.backends.child import memory_folder, until
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import size

pytestmark = pytest.mark.proof

RUNS = 8
MORE = 4
FAIL_OVERS = size("fail-overs")
READY_S = 30.0


def follow(follower: Redis, leader: Redis) -> None:
    """Have it follow, and wait until it has all."""
    follower.primary = leader
    follower.start()
    link = lambda: follower.execute("INFO", "replication")["master_link_status"]  # noqa: E731 - one look
    assert until(lambda: link() == "up", READY_S)


async def test_S3_with_wait_nothing_acknowledged_is_lost_when_a_replica_is_promoted_by_hand(
    backends: None,
) -> None:
    began = time.monotonic()
    with (
        Redis(inside=memory_folder()) as leader,
        Redis(inside=memory_folder(), replica_of=leader) as follower,
    ):
        await asyncio.to_thread(follow, follower, leader)
        async with Proxy(leader.port) as proxy:
            url = leader.url(port=proxy.port, wait="1", wait_ms=WAIT_MS)
            async with Load(url, RUNS) as load:
                assert (await load.doors[0].describe()).durability is Durability.NODE
                for _ in range(FAIL_OVERS):
                    await load.more(MORE)
                    # What the leader said yes to from here on would be lost for certain.
                    follower.cut_off()
                    await asyncio.sleep(CUT_OFF_S)
                    await asyncio.to_thread(leader.kill)
                    follower.let_follow()
                    follower.execute("REPLICAOF", "NO", "ONE")
                    follower.primary = None
                    proxy.target = follower.port
                    proxy.cut()
                    await asyncio.to_thread(follow, leader, follower)
                    leader, follower = follower, leader
                await load.more(MORE)
                found = await load.check()
    print(found)
    assert found.lost == 0
    figures = {
        "fail-overs": FAIL_OVERS,
        "acknowledged commits": found.acknowledged,
        "lost": found.lost,
    }
    command = "make proof ARGS='-k promoted_by_hand'"
    seconds = time.monotonic() - began
    keep(Record("fail-overs, redis with wait=1", command, figures, found.seen, seconds, str(SEED)))
