"""Names never leave their place in a key, and partitions lie where a cluster keeps them together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell_drivers.redis.keys import SLOTS, Keys, channel, escape, meta_key, slot_of, unescape
from stepwell_testkit.conformance.tenants import TEXTS

NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(NAMES)
def test_an_escaped_name_comes_back_and_holds_nothing_that_ends_a_part(name: str) -> None:
    escaped = escape(name)
    assert unescape(escaped) == name
    assert not set(escaped) & set("{}:")
    assert all(ord(character) > 0x20 for character in escaped)


@given(NAMES, NAMES, NAMES, NAMES)
def test_two_runs_of_other_names_have_other_keys(a: str, b: str, c: str, d: str) -> None:
    keys = Keys("p", 4)
    one, other = keys.of_run(a, b), keys.of_run(c, d)
    assert (one.rows == other.rows) == ((a, b) == (c, d))


@pytest.mark.parametrize("name", TEXTS.values(), ids=TEXTS.keys())
def test_all_keys_of_a_hostile_name_lie_in_its_partitions_slot(name: str) -> None:
    run = Keys("stepwell", 16).of_run(name, name)
    one = run.partition
    for key in (*one[3:], run.rows, run.orders, run.logs, run.tenant_feed):
        assert isinstance(key, bytes)
        # As a cluster finds it: what stands between the first { and the first } behind it.
        tag = key.decode().partition("{")[2].partition("}")[0]
        assert slot_of(tag) == one.slot
        assert key.count(b"{") == key.count(b"}") == 1


def test_reservations_lie_in_partitions_of_their_own_keys() -> None:
    keys = Keys("p", 24)
    found = {keys.reservation("t", "p", f"key {at}")[0].number for at in range(500)}
    assert found == set(range(24))
    here, name = keys.reservation("t", "p", "k")
    assert (here, name) != keys.reservation("t", "p:k", "")
    assert name == "t\x01p\x01k"


@pytest.mark.parametrize("count", [1, 3, 16, 48, 64])
def test_partitions_share_the_slots_evenly(count: int) -> None:
    slots = [one.slot for one in Keys("stepwell", count).partitions]
    assert [slot * count // SLOTS for slot in slots] == list(range(count))


def test_slots_are_those_of_a_cluster() -> None:
    # From the specification of Redis Cluster.
    assert slot_of("123456789") == 0x31C3


def test_key_names_are_part_of_the_format() -> None:
    """A change here loses sight of every row that was ever written."""
    run = Keys("stepwell", 16).of_run("acme", "run-1")
    assert run.rows == b"{stepwell.7.43}rows:acme:run-1"
    assert run.partition.book == b"{stepwell.7.43}book"
    assert meta_key("stepwell") == b"{stepwell}meta"
    assert channel("stepwell") == b"{stepwell}hints"
