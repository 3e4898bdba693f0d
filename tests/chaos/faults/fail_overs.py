"""Faults of a cluster under load: masters that go, replicas that take over, slots that move."""

from __future__ import annotations

import time
from collections.abc import Iterable
from random import Random

from stepwell_drivers.redis.keys import Keys, Partition
from stepwell_drivers.redis.opening import PARTITIONS_IN_CLUSTER
from stepwell_drivers.redis.url import PREFIX
from tests.support.backends.cluster import RedisCluster

KEYS = Keys(PREFIX, PARTITIONS_IN_CLUSTER)


WAYS = (
    "replica cut off, then its master killed",
    "master killed, replica elected",
    "master stopped",
    "master killed",
)
PATIENT_MS, IMPATIENT_MS = 60_000, 1_000
"""For so long nodes wait for one that is silent: a master that only stands still, on a busy machine, stays one."""
WAIT_MS = "200"
"""For so long an acknowledgement waits for a replica."""
CUT_OFF_S = 0.8
"""Longer than that."""


def fail_over(cluster: RedisCluster, rnd: Random, how: str) -> None:
    """Take a master away in one of these ways, have its replica promoted, and let it come back."""
    master, heir = pair_of(cluster, rnd)
    node = cluster.nodes[master]
    if how == WAYS[0]:
        # What it says yes to from here on would be lost for certain.
        cluster.nodes[heir].cut_off()
        time.sleep(CUT_OFF_S)
    if how == WAYS[2]:
        # What was sent to it meanwhile it takes when it goes on, for it doesn't know yet.
        node.freeze()
    else:
        node.kill()
    if how == WAYS[1]:
        _wait_for_silent(cluster, IMPATIENT_MS)
        cluster.wait_led(heir)
        _wait_for_silent(cluster, PATIENT_MS)
    else:
        cluster.take_over(heir)
    cluster.nodes[heir].let_follow()
    # It comes back as its own heir's replica; of what it alone had, nothing stays.
    node.start()
    cluster.wait_followed(heir)


def _wait_for_silent(cluster: RedisCluster, within_ms: int) -> None:
    for node in cluster.nodes:
        if node.running:
            node.configure(cluster_node_timeout=f"{within_ms}")


def pair_of(
    cluster: RedisCluster, rnd: Random, partitions: Iterable[Partition] = KEYS.partitions
) -> tuple[int, int]:
    """Return a master that has something of ours, or of these partitions, and its replica."""
    master = rnd.choice(sorted({cluster.owner(one.slot) for one in partitions}))
    return master, cluster.replica_of(master)


def lose_master(cluster: RedisCluster, master: int, heir: int) -> None:
    """Kill a master whose replica has fallen behind, have that promoted, and let the dead one come back."""
    cluster.nodes[master].kill()
    cluster.take_over(heir)
    cluster.nodes[heir].let_follow()
    cluster.nodes[master].start()
    cluster.wait_followed(heir)


def move(cluster: RedisCluster, rnd: Random) -> None:
    """Move one of our slots to another master, a few keys at a time."""
    slot = rnd.choice(KEYS.partitions).slot
    masters = sorted({cluster.owner(one.slot) for one in KEYS.partitions})
    to = rnd.choice([at for at in masters if at != cluster.owner(slot)])
    cluster.begin_move(slot, to)
    while cluster.move_keys(slot, to, limit=rnd.randint(1, 4)):
        pass
    cluster.finish_move(slot, to)
