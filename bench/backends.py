"""The stores that are measured: each is opened for a while, and gives fresh places for scenarios.

`grpc:NAME` is `stepwell store` in front of another one, in a process of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.limits import pgbench_commits, redis_writes
from bench.processes import StoreProcess
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.postgres import Postgres
from tests.support.backends.redis import Redis

NAMES = ("memory", "sqlite", "postgres", "redis", "valkey", "cluster")


class Place(NamedTuple):
    """Place in which one scenario keeps its runs."""

    url: str
    database: Path | None = None
    """The file that grows, where there is one."""


class Backend:
    """A store of a kind, while it is open."""

    def __init__(self, name: str, folder: Path, place: Callable[[], Place]) -> None:
        self.name = name
        self.folder = folder
        self._place = place
        self._numbers = itertools.count(1)
        self.limits: list[str] = []
        """The most that the machine and the database can do, in words."""
        self.keeps = name.removeprefix("grpc:") != "memory"
        """Runs outlive the server that runs them."""

    @contextmanager
    def fresh(self) -> Iterator[tuple[Place, Path]]:
        """A place with nothing in it, and a folder for the processes that use it."""
        folder = self.folder / str(next(self._numbers))
        folder.mkdir(parents=True)
        place = self._place()
        if not self.name.startswith("grpc:"):
            yield place, folder
            return
        apart = folder / "store"
        # It refuses to mint a token where others could read it.
        apart.mkdir(mode=0o700)
        store = StoreProcess(place.url, apart)
        try:
            yield place._replace(url=f"grpc://{store.target}?token_file={store.token}"), folder
        finally:
            store.stop()


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Backend]:
    """Open a store by its name in `NAMES`, or `grpc:` and one of these."""
    kind = name.removeprefix("grpc:")
    own = folder / name.replace(":", "-")
    own.mkdir()
    numbers = itertools.count(1)
    with ExitStack() as stack:
        if kind == "memory":
            yield Backend(name, own, lambda: Place("memory://"))
        elif kind == "sqlite":
            files = (own / f"{number}.db" for number in numbers)
            yield Backend(name, own, lambda: _in_file(next(files)))
        elif kind == "postgres":
            server = stack.enter_context(Postgres(18, settings={"shared_buffers": "256MB"}))
            backend = Backend(name, own, lambda: Place(server.url(server.new_database())))
            backend.limits = pgbench_commits(server, clients=(1, 16))
            yield backend
        elif kind in ("redis", "valkey"):
            single = stack.enter_context(Redis(kind))
            backend = Backend(name, own, lambda: _flushed(single))
            backend.limits = redis_writes(single, pipelined=(1, 64))
            yield backend
        elif kind == "cluster":
            cluster = stack.enter_context(RedisCluster())
            yield Backend(name, own, lambda: _flushed(cluster))
        else:
            raise SystemExit(f"no store {name!r}; known: {', '.join(NAMES)}, and grpc:NAME")


def _in_file(path: Path) -> Place:
    return Place(f"sqlite:///{path}", path)


def _flushed(server: Redis | RedisCluster) -> Place:
    server.flush()
    return Place(server.url())
