"""Reads the owners of slots from CLUSTER SLOTS (the same in Redis and Valkey)."""

from __future__ import annotations

from stepwell_drivers.redis.url import Address
from stepwell_drivers.redis.wire import Reply


def owners_of(reply: Reply, asked: Address) -> dict[int, Address]:
    """Return the primary of each slot that has one; a node without a host is the server that was asked."""
    owners: dict[int, Address] = {}
    for first, last, primary, *_ in reply:
        host = (primary[0] or b"").decode()
        address = Address(asked.host if host in {"", "?"} else host, int(primary[1]))
        owners.update(dict.fromkeys(range(first, last + 1), address))
    return owners
