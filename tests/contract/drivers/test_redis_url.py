"""Redis URLs: meaning, and refusals that repeat no secret."""

from __future__ import annotations

import pytest

from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.states import Durability
from stepwell_drivers.redis.url import Address, parse

SECRET = "hunter2"


def test_a_short_url_says_all_that_is_needed() -> None:
    place = parse("redis://localhost")
    assert place.seeds == (Address("localhost", 6379),)
    assert (place.is_cluster, place.tls, place.database) == (False, None, 0)
    assert (place.prefix, place.partitions, place.wait) == ("stepwell", 0, 0)
    assert place.credentials.password is None


def test_a_long_url_is_taken_as_it_is() -> None:
    place = parse(
        "redis://me:a%2Fb%40c@[::1]:7000/3?prefix=x.y&partitions=5&wait=2&wait_ms=70"
        "&timeout_ms=900&connections=9&durability=power"
    )
    assert place.seeds == (Address("::1", 7000),)
    assert place.name == "[::1]:7000"
    assert (place.credentials.user, place.credentials.password) == ("me", "a/b@c")
    assert (place.database, place.prefix, place.partitions) == (3, "x.y", 5)
    assert (place.wait, place.wait_ms, place.timeout_ms, place.connections) == (2, 70, 900, 9)
    assert place.durability is Durability.POWER


def test_a_cluster_is_named_by_any_of_its_nodes() -> None:
    place = parse("redis+cluster://:pw@a:1,b:2,c")
    assert place.is_cluster
    assert place.seeds == (Address("a", 1), Address("b", 2), Address("c", 6379))


def test_a_secure_url_checks_who_answers() -> None:
    place = parse("rediss://localhost")
    assert place.tls is not None
    assert place.tls.check_hostname
    place = parse("rediss+cluster://localhost?ssl_cert_reqs=none")
    assert place.tls is not None
    assert not place.tls.check_hostname


@pytest.mark.parametrize("password", ["a?b", "a/b", "a@b", "a?b/c@d"])
def test_a_password_that_was_not_encoded_is_taken_up_to_the_last_at(password: str) -> None:
    assert parse(f"redis://:{password}@host:1").credentials.password == password


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis:/localhost", "no URL of a Redis"),
        ("valkey://localhost", "no URL of a Redis"),
        ("redis://", "names no host"),
        (f"redis://:{SECRET}@", "names no host"),
        (f"redis://:{SECRET}@host:0", "names no host"),
        (f"redis://:{SECRET}@host:99999", "names no host"),
        (f"redis://:{SECRET}@host,other", "too many hosts"),
        (f"redis://:{SECRET}@host/x", "the database's number"),
        (f"redis+cluster://:{SECRET}@host/1", "database 0 alone"),
        (f"redis://host?password={SECRET}", "is not known"),
        ("redis://host?wait=1&wait=2", "given twice"),
        ("redis://host?wait", "name=value"),
        ("redis://host?wait=-1", "wait must be a number"),
        ("redis://host?partitions=65", "from 1 to 64"),
        ("redis://host?prefix={x}", "prefix must be"),
        ("redis://host?durability=always", "durability must be one of"),
        ("redis://host?ssl_ca_certs=/x", "starts with rediss"),
        ("rediss://host?ssl_ca_certs=/nowhere/at/all", "TLS files can't be read"),
        ("rediss://host?ssl_cert_reqs=optional", "required or none"),
        (f"redis://host#{SECRET}", "no URL of a Redis"),
    ],
)
def test_wrong_url_is_refused_with_a_reason(url: str, words: str) -> None:
    with pytest.raises(StoreRefused) as caught:
        parse(url)
    assert words in caught.value.message
    assert SECRET not in caught.value.message


def test_credentials_show_nothing() -> None:
    place = parse(f"redis://me:{SECRET}@host")
    assert SECRET not in repr(place)
