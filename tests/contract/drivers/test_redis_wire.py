"""Refusals, servers' settings, and cursors."""

from __future__ import annotations

import pytest

from stepwell.core.port import Commit
from stepwell.core.records.errors import InvalidArgument, StoreFull, StoreRefused, StoreUnavailable
from stepwell.core.records.states import Durability
from stepwell_drivers.redis.cursors import cursor_of, feed_cursor, feed_places, place_of
from stepwell_drivers.redis.errors import Meaning, Refusal, error_of, meaning_of
from stepwell_drivers.redis.packing import pack
from stepwell_drivers.redis.server_settings import Facts, check, info_of, promise
from stepwell_drivers.redis.slots import owners_of
from stepwell_drivers.redis.url import Address
from stepwell_testkit.conformance import builders


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("NOSCRIPT No matching script.", Meaning.NO_SCRIPT),
        ("MOVED 3999 127.0.0.1:6381", Meaning.MOVED),
        ("ASK 3999 127.0.0.1:6381", Meaning.ASK),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Meaning.LATER),
        ("CLUSTERDOWN The cluster is down", Meaning.LATER),
        ("LOADING Redis is loading the dataset in memory", Meaning.LATER),
        ("BUSY Redis is busy running a script.", Meaning.LATER),
        ("MISCONF Errors writing to the AOF file", Meaning.LATER),
        ("READONLY You can't write against a read only replica.", Meaning.ELSEWHERE),
        ("MASTERDOWN Link with MASTER is down", Meaning.ELSEWHERE),
        ("OOM command not allowed when used memory > 'maxmemory'.", Meaning.FULL),
        ("NOAUTH Authentication required.", Meaning.CLOSED),
        ("WRONGPASS invalid username-password pair", Meaning.CLOSED),
        ("NOPERM User x has no permissions", Meaning.CLOSED),
        ("EMPTIED this partition is not of the store", Meaning.CLOSED),
        ("ERR unknown command", Meaning.WRONG),
    ],
)
def test_each_refusal_has_a_meaning(text: str, meaning: Meaning) -> None:
    refusal = Refusal(*text.split(" ", 1))
    assert meaning_of(refusal) is meaning
    error = error_of(refusal, "host:1")
    assert isinstance(error, StoreUnavailable)
    assert isinstance(error, StoreFull) == (meaning is Meaning.FULL)
    assert "host:1" in error.message


def test_refusal_is_one_line_of_bounded_length() -> None:
    words = error_of(Refusal("ERR", "a\r\nb\x00" + "x" * 5_000), "h").message
    assert words.isprintable()
    assert len(words) < 500


# --- what servers say ---


def facts(*, info: str = "", **settings: str) -> Facts:
    text = f"redis_version:8.2.3\r\nrole:master\r\ncluster_enabled:0\r\n{info}"
    message = {name.replace("_", "-"): value for name, value in settings.items()}
    return Facts("h:1", info_of(text.encode()), message or None)


ALWAYS = {"appendonly": "yes", "appendfsync": "always"}


EVERYSEC = {"appendonly": "yes", "appendfsync": "everysec"}


@pytest.mark.parametrize(
    ("servers", "wait", "durability"),
    [
        ([ALWAYS], 0, Durability.POWER),
        ([ALWAYS], 1, Durability.NODE),
        ([EVERYSEC], 0, Durability.VOLATILE),
        ([EVERYSEC], 2, Durability.VOLATILE),
        ([{"appendonly": "yes", "appendfsync": "no"}], 0, Durability.VOLATILE),
        ([{"appendonly": "no", "appendfsync": "always"}], 0, Durability.VOLATILE),
        ([{}], 0, Durability.VOLATILE),
        # A cluster promises what its weakest node does.
        ([ALWAYS, EVERYSEC, ALWAYS], 0, Durability.VOLATILE),
    ],
)
def test_the_class_follows_from_the_settings(
    servers: list[dict[str, str]], wait: int, durability: Durability
) -> None:
    found = [facts(**settings) for settings in servers]
    assert promise(found, wait=wait, word=None).durability is durability


@pytest.mark.parametrize("truncated", [["yes"], ["no"], ["no", "yes", "no"]])
def test_a_log_that_is_cut_anywhere_is_warned_of(truncated: list[str]) -> None:
    servers = [facts(**ALWAYS, aof_load_truncated=value) for value in truncated]
    warns = "set it to no" in promise(servers, wait=0, word=None).detail
    assert warns is ("yes" in truncated)


def test_declared_durability_counts_only_where_the_server_is_silent() -> None:
    silent, telling = facts(), facts(appendonly="no")
    assert promise([silent], wait=0, word=Durability.POWER).durability is Durability.POWER
    assert promise([telling], wait=0, word=Durability.POWER).durability is Durability.VOLATILE


@pytest.mark.parametrize(
    ("found", "is_cluster", "words"),
    [
        (facts(info="redis_version:6.2.1"), False, "at least 7.0"),
        (facts(info="valkey_version:7.2.5"), False, "at least 8.0"),
        (facts(info="redis_mode:sentinel"), False, "sentinel"),
        (facts(info="cluster_enabled:1"), False, "redis+cluster://"),
        (facts(), True, "redis://"),
        (facts(info="role:slave\r\nmaster_host:p\r\nmaster_port:7"), False, "its primary, p:7"),
        (facts(maxmemory_policy="allkeys-lru"), False, "noeviction"),
        (facts(info="maxmemory_policy:allkeys-lfu"), False, "noeviction"),
    ],
)
def test_a_server_that_cant_be_used_is_refused(
    found: Facts, *, is_cluster: bool, words: str
) -> None:
    with pytest.raises(StoreRefused) as caught:
        check(found, is_cluster=is_cluster)
    assert words in caught.value.message


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "volatile-ttl"])
def test_a_server_that_evicts_only_what_expires_is_taken(policy: str) -> None:
    check(facts(maxmemory_policy=policy), is_cluster=False)


def test_a_node_without_a_host_is_the_one_that_was_asked() -> None:
    reply = [[0, 1, [b"", 7001, b"id"]], [2, 2, [b"h", 7002, b"id"], [b"r", 7003, b"id"]]]
    asked = Address("seed", 7000)
    owners = owners_of(reply, asked)
    assert owners == {0: Address("seed", 7001), 1: Address("seed", 7001), 2: Address("h", 7002)}


# --- cursors ---


def test_a_cursor_leads_back_to_its_place_in_its_list_alone() -> None:
    cursor = cursor_of("t", b"\x00place\xff")
    assert place_of(cursor, "t", bytes, b"") == b"\x00place\xff"
    assert place_of("", "t", bytes, b"start") == b"start"
    with pytest.raises(InvalidArgument):
        place_of(cursor, "x", bytes, b"")
    with pytest.raises(InvalidArgument):
        place_of(cursor_of("t", 7), "t", bytes, b"")


@pytest.mark.parametrize("cursor", ["x", "!", "a b", "\x00", "é", "AAAA", "x" * 10_000, "1.5"])
def test_foreign_cursor_is_rejected(cursor: str) -> None:
    with pytest.raises(InvalidArgument):
        place_of(cursor, "t", int, 0)
    with pytest.raises(InvalidArgument):
        feed_places(cursor, "store", 4)


def test_feed_cursor_covers_every_partition_and_fits_a_request() -> None:
    places = [1_800_000_000_000_000 + at for at in range(63)] + [0]
    cursor = feed_cursor("store", places)
    assert len(cursor) < 1_000
    assert feed_places(cursor, "store", 64) == places
    for store, count in (("other", 64), ("store", 63)):
        with pytest.raises(InvalidArgument):
            feed_places(cursor, store, count)


# --- what can't be kept ---


@pytest.mark.parametrize(
    "commit",
    [
        builders.created("\ud800"),
        builders.created(commit_id="\ud800"),
        builders.created(executions=[builders.ready("\ud800")]),
        builders.step(builders.created(), reason="\ud800"),
        builders.created(timers=[builders.timer(0, "\ud800")]),
        builders.created(created_us=2**64),
    ],
)
def test_unstorable_value_is_an_invalid_argument(commit: Commit) -> None:
    with pytest.raises(InvalidArgument):
        pack(commit)
