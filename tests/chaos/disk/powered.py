"""Stores whose files lie on a disk that forgets: what serves them is started, killed and started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from signal import SIGKILL
from typing import NamedTuple

from tests.chaos.disk.disk import Disk
from tests.support.backends.child import until
from tests.support.backends.keeper import (
    GONE_S,
    family,
    is_alive,
    release_shared_memory,
    send_signal,
)
from tests.support.backends.postgres import Postgres
from tests.support.backends.redis import Redis
from tests.support.backends.server import Server


class Powered(NamedTuple):
    """A store whose files lie on the disk."""

    url: str
    start: Callable[[], object]
    """Bring up what serves it, when power is back."""
    kill: Callable[[], object]
    """SIGKILL to what serves it; waits for nobody."""
    wait_gone: Callable[[], object]
    """Wait until all of that is gone."""
    changes_max: int
    """A cut comes after so many changes to the disk, at the most …"""
    early_max: int
    """… or after so many, when it shall come while the store is being opened."""
    repaired: Callable[[], int] = int
    """The number of times that its server would not start until a person had mended a file."""


Serve = Callable[[Disk], AbstractContextManager[Powered]]


@contextmanager
def sqlite(disk: Disk) -> Iterator[Powered]:
    """A file; the process that writes it is all that there is to kill."""

    def nothing() -> None: ...

    yield Powered(f"sqlite:///{disk.folder / 'store.db'}", nothing, nothing, nothing, 1_500, 25)


class _Served:
    """A server with its folder on the disk."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._family: list[int] = []

    def start(self) -> None:
        self._server.start()
        # What it shares with its children would outlive a kill.
        release_shared_memory(self._server.folder)

    def kill(self) -> None:
        if self._server.running:
            self._family = family(self._server.pid)
            for pid in self._family:
                send_signal(pid, SIGKILL)

    def wait_gone(self) -> None:
        self._server.kill()
        assert until(lambda: not any(map(is_alive, self._family)), GONE_S)


@contextmanager
def redis(disk: Disk, *, appendfsync: str = "always") -> Iterator[Powered]:
    """A Redis that appends to its log."""
    with Redis(appendfsync=appendfsync, inside=disk.folder) as server:
        disk.sync()
        served = _Served(server)
        live = (served.start, served.kill, served.wait_gone)
        yield Powered(server.url(), *live, 400, 40, lambda: server.mended)


@contextmanager
def postgres(disk: Disk, *, synchronous_commit: str = "on") -> Iterator[Powered]:
    """A Postgres with little memory, and small files for its log."""
    settings = {"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB"}
    made = partial(Postgres, synchronous_commit=synchronous_commit, settings=settings)
    with made(inside=disk.folder, max_connections=20) as server:
        url = server.url(server.new_database())
        disk.sync()
        served = _Served(server)
        yield Powered(url, served.start, served.kill, served.wait_gone, 600, 1_500)
