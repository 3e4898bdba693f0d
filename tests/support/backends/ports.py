"""Ports that stay ours while a server is down, so that it can come back at the same place."""

from __future__ import annotations

import atexit
import random
import socket
from pathlib import Path

LOWEST = 10_000
TRIES_MAX = 1_000

# An abstract socket per port is the lock: its names live and die with the network namespace,
# as ports do, and are free again when their holder ends.
_held: dict[int, socket.socket] = {}
_dice = random.Random()


def _highest() -> int:
    """Below what the kernel gives away by itself to outgoing connections."""
    try:
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        low = 32_768
    return low if low > LOWEST + 5_000 else 65_535


def _take(port: int) -> bool:
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0stepwell-test-port-{port}")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        lock.close()
        return False
    _held[port] = lock
    return True


def reserve(wanted: int = 0) -> int:
    """A loopback port that nobody listens on, kept from other test processes until `release`.

    `wanted`: this one, which somebody of ours has just let go.
    """
    if wanted and _take(wanted):
        return wanted
    highest = _highest()
    for _ in range(TRIES_MAX):
        port = _dice.randrange(LOWEST, highest)
        if port not in _held and _take(port):
            return port
    raise RuntimeError(f"no free port between {LOWEST} and {highest}")


def release(port: int) -> None:
    lock = _held.pop(port, None)
    if lock is not None:
        lock.close()


@atexit.register
def _release_all() -> None:
    for port in list(_held):
        release(port)
