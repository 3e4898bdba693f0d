"""Replicas divide the limit of a queue."""

from __future__ import annotations

from stepwell.core.port import Presence, Want
from stepwell.engine.shares import ROUND_US, QueueShares

REPLICAS = ("one", "two", "three")


def divided(limit: int, now_us: int) -> list[int]:
    """Return how much each of three replicas may lease of a queue."""
    presences = [
        Presence(tenant_id="t", worker_id=name, instance_id="i", replica_id=name, queues=("q",))
        for name in REPLICAS
    ]
    rooms: list[int] = []
    for name in REPLICAS:
        shares = QueueShares({"q": limit}, name)
        shares.divide("t", presences, now_us=now_us)
        rooms.append(shares.room("t", "q"))
    return rooms


def test_the_parts_come_to_the_limit() -> None:
    for limit in (1, 2, 3, 7, 10):
        assert sum(divided(limit, 0)) == limit


def test_a_limit_below_the_number_of_replicas_goes_round() -> None:
    rounds = [divided(1, turn * ROUND_US) for turn in range(3)]
    assert [sum(room) for room in zip(*rounds, strict=True)] == [1, 1, 1]


def test_tenants_and_other_queues_have_room_of_their_own() -> None:
    shares = QueueShares({"q": 1}, "one")
    shares.count("t", "q", ("run", "a"))
    assert (shares.room("t", "q"), shares.room("u", "q")) == (0, 1)
    assert not shares.limits("another")
    assert shares.discount("t", "q", ("run", "a"))
    assert not shares.discount("t", "q", ("run", "a"))


def test_a_limited_queue_is_asked_for_by_itself_and_no_more_than_it_has_room() -> None:
    shares = QueueShares({"q": 3}, "one")
    shares.count("t", "q", ("run", "a"))
    want = Want(tenant_id="t", queues=("q", "free"), kinds=(), limit=10)
    asked = {one.want.queues: one.want.limit for one in shares.ask([want])}
    assert asked[("q",)] == 2
    assert asked[("free",)] >= 5
    assert sum(asked.values()) <= 10


def test_wants_of_one_queue_share_its_room() -> None:
    shares = QueueShares({"q": 3}, "one")
    wants = [Want(tenant_id="t", queues=("q",), kinds=(), version=name, limit=5) for name in "ab"]
    assert sum(one.want.limit for one in shares.ask(wants)) == 3
