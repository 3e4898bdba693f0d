"""Calls without a credential: each address has an allowance, and all have one together."""

from __future__ import annotations

import pytest

from stepwell.rpc import allowance as module
from stepwell.rpc.allowance import Allowance, address_of
from stepwell.rpc.status import TooManyCalls


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def taken(allowance: Allowance, peer: str, times: int) -> int:
    """Return how many of these calls are let in."""
    count = 0
    for _ in range(times):
        try:
            allowance.take(peer)
        except TooManyCalls:
            continue
        count += 1
    return count


def test_an_address_has_its_allowance_which_grows_again() -> None:
    clock = Clock()
    allowance = Allowance(clock, each=6, together=100)
    assert taken(allowance, "ipv4:10.0.0.1:1", 10) == 6
    assert taken(allowance, "ipv4:10.0.0.1:2", 1) == 0, "another port is the same address"
    assert taken(allowance, "ipv4:10.0.0.2:1", 10) == 6
    clock.now_s += 20.0
    assert taken(allowance, "ipv4:10.0.0.1:1", 10) == 2
    clock.now_s += 3_600.0
    assert taken(allowance, "ipv4:10.0.0.1:1", 10) == 6


def test_all_addresses_share_one_allowance() -> None:
    allowance = Allowance(Clock(), each=6, together=9)
    assert [taken(allowance, f"ipv4:10.0.0.{n}:1", 6) for n in range(3)] == [6, 3, 0]


def test_a_bounded_number_of_addresses_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADDRESSES_MAX", 2)
    allowance = Allowance(Clock(), each=1, together=100)
    for host in ("a", "b", "c"):
        assert taken(allowance, f"unix:{host}", 2) == 1
    assert len(allowance._left) == 2


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:4242", "127.0.0.1"),
        ("ipv6:[::1]:4242", "::/64"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4242", "2001:db8:1:2::/64"),
        ("ipv6:[fe80::1%25eth0]:1", "fe80::/64"),
        ("ipv6:[::ffff:10.0.0.9]:4242", "10.0.0.9"),
        ("unix:/run/stepwell.sock", "unix:/run/stepwell.sock"),
        ("unix:", "unix:"),
        ("", ""),
        ("ipv4:nonsense:1", "nonsense"),
    ],
)
def test_address_of_a_peer(peer: str, address: str) -> None:
    assert address_of(peer) == address
