"""An allowance of calls that need no credential: for each address, and for all addresses together.

What is left of an allowance grows evenly, up to its size. Each replica counts for itself.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from stepwell.rpc.status import TooManyCalls

MINUTE_S = 60.0
ADDRESSES_MAX = 10_000
"""Addresses that are remembered; the one that called least recently is forgotten first."""
_V6_PREFIX = 64
"""The bits of an IPv6 address that one caller can't choose freely."""


class _Left(NamedTuple):
    calls: float
    at_s: float


class Allowance:
    """Counts calls: `take` takes one, or refuses it."""

    def __init__(self, monotonic: Callable[[], float], *, each: int, together: int) -> None:
        """`each` and `together`: the calls per minute of one address, and of all."""
        self._monotonic = monotonic
        self._each = each
        self._together = together
        self._left: OrderedDict[str, _Left] = OrderedDict()
        self._left_together = _Left(together, monotonic())

    def take(self, peer: str) -> None:
        """Take a call of a peer, as gRPC names it (`ipv4:127.0.0.1:4242`).

        Raises:
            TooManyCalls: nothing is left for its address, or for all.
        """
        address, now_s = address_of(peer), self._monotonic()
        own = _grown(self._left.get(address, _Left(self._each, now_s)), self._each, now_s)
        rest = _grown(self._left_together, self._together, now_s)
        if own.calls < 1 or rest.calls < 1:
            whose = "from this address" if own.calls < 1 else "in all"
            raise TooManyCalls(f"too many answers by token came {whose}; call again after a while")
        self._left[address] = own._replace(calls=own.calls - 1)
        self._left.move_to_end(address)
        self._left_together = rest._replace(calls=rest.calls - 1)
        if len(self._left) > ADDRESSES_MAX:
            self._left.popitem(last=False)


def _grown(left: _Left, size: int, now_s: float) -> _Left:
    grown = left.calls + (now_s - left.at_s) * size / MINUTE_S
    return _Left(min(size, grown), now_s)


def address_of(peer: str) -> str:
    """Return the part of a peer's name that stands for a caller: without the port; of IPv6 the network."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer if kind == "unix" else kind
    host = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, _V6_PREFIX), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)
