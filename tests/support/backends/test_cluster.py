"""The cluster: slots that move, slots that are missing, nodes that die and come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis as library

from tests.support.backends import cluster as clusters
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.redis import Redis
from tests.support.backends.redis_client import WARDEN, WARDEN_PASSWORD

KEY, BESIDE = "{tag}key", "{tag}beside"


@pytest.fixture
def client(cluster: RedisCluster) -> Iterator[library.RedisCluster]:
    client = library.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    yield client
    client.close()


def answer(node: Redis, key: str) -> str:
    """What the node itself says to a client that follows nothing."""
    try:
        return str(node.execute("GET", key))
    except library.ResponseError as error:
        return type(error).__name__


def test_keys_are_spread_over_three_masters(
    cluster: RedisCluster, client: library.RedisCluster
) -> None:
    for n in range(30):
        client.set(f"key{n}", n)

    sizes = [int(node.execute("DBSIZE")) for node in cluster.nodes]

    assert sum(sizes) == 30
    assert all(sizes)
    cluster.flush()
    assert not any(node.execute("DBSIZE") for node in cluster.nodes)


def test_a_slot_on_the_move_answers_ask_and_then_moved(
    cluster: RedisCluster, client: library.RedisCluster
) -> None:
    client.mset({KEY: "1", BESIDE: "2"})
    slot = cluster.slot_of(KEY)
    old = cluster.owner(slot)
    new = (old + 1) % 3

    cluster.begin_move(slot, new)
    assert cluster.move_keys(slot, new, limit=1) == 1
    answers = [answer(cluster.nodes[old], key) for key in (KEY, BESIDE)]
    assert answers in (["1", "AskError"], ["AskError", "2"])
    assert (client.get(KEY), client.get(BESIDE)) == (b"1", b"2")

    cluster.move_keys(slot, new)
    cluster.finish_move(slot, new)

    assert cluster.owner(slot) == new
    assert answer(cluster.nodes[old], KEY) == "MovedError"
    assert (client.get(KEY), client.get(BESIDE)) == (b"1", b"2")
    cluster.move_slots([slot], old)


def test_slots_that_nobody_serves_fail_the_cluster_until_they_are_given(
    cluster: RedisCluster, client: library.RedisCluster
) -> None:
    slot = cluster.slot_of(KEY)
    owner = cluster.owner(slot)

    cluster.take_away(slot, slot)

    assert answer(cluster.nodes[owner], KEY) == "ClusterDownError"
    with pytest.raises(LookupError):
        cluster.owner(slot)
    cluster.give(slot, slot, owner)
    assert client.get(KEY) is None


def test_a_node_is_killed_and_comes_back_with_its_keys(
    cluster: RedisCluster, client: library.RedisCluster
) -> None:
    client.set(KEY, "1")
    owner = cluster.owner(cluster.slot_of(KEY))

    cluster.nodes[owner].kill()
    cluster.wait_failed()
    cluster.start()

    assert client.get(KEY) == b"1"


def test_a_replica_takes_over() -> None:
    with RedisCluster("valkey", replicas=1, password="pw") as cluster:
        slot = cluster.slot_of(KEY)
        owner = cluster.owner(slot)
        with library.RedisCluster(port=cluster.nodes[0].port, host="127.0.0.1", password="pw") as c:
            c.set(KEY, "1")
        cluster.nodes[owner].execute("WAIT", 1, 20_000)

        cluster.nodes[owner].kill()
        cluster.wait_ready()

        assert cluster.owner(slot) == owner + 3
        assert cluster.nodes[owner + 3].execute("GET", KEY) == "1"


def test_it_is_made_with_slots_missing() -> None:
    with RedisCluster("valkey", missing=(0, 99), full_coverage=False) as cluster:
        assert cluster.owner(100) == 0
        with pytest.raises(LookupError):
            cluster.owner(99)


def test_a_node_that_stands_still_while_it_is_met_is_met_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    say, stood = clusters._say, threading.Event()

    def standing_still(node: Redis, *command: str | int) -> Any:
        answer = say(node, *command)
        if "MEET" in command and not stood.is_set():
            stood.set()
            node.freeze()
            # Longer than a meeting is tried for.
            threading.Timer(1.5, node.thaw).start()
        return answer

    monkeypatch.setattr(clusters, "_say", standing_still)
    with RedisCluster("valkey") as cluster:
        assert stood.is_set()
        assert cluster.owner(0) == 0


def test_the_port_that_a_node_announces_is_told_by_every_node(cluster: RedisCluster) -> None:
    cluster.announce(1, 1234)
    try:
        cluster.wait_announced()
        for node in cluster.nodes:
            with library.Redis(
                port=node.port, username=WARDEN, password=WARDEN_PASSWORD, decode_responses=True
            ) as client:
                assert "1234" in str(client.execute_command("CLUSTER", "SLOTS"))
    finally:
        cluster.announce(1, 0)
        cluster.wait_announced()
