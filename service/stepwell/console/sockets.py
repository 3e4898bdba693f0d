"""Sockets that listen for HTTP."""

from __future__ import annotations

import socket


def listening(host: str, port: int, *, is_dual: bool = False) -> socket.socket:
    """Return a bound socket whose connections send each answer at once; `is_dual`: IPv6 takes IPv4 too.

    asyncio sets TCP_NODELAY only on sockets that name TCP as their protocol, which `create_server` doesn't.
    Without it each answer on a kept connection waits 40 ms for an acknowledgement. Connections inherit it.

    Raises:
        OSError: the address can't be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, dualstack_ipv6=is_dual)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
