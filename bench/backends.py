"""The stores that are measured: each is opened for a while, and gives fresh places for works.

`grpc:NAME` is `stepwell store` in front of another one, in a process of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.processes import StoreProcess
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.keeper import children
from tests.support.backends.postgres import Postgres
from tests.support.backends.redis import Redis

NAMES = ("memory", "sqlite", "postgres", "redis", "valkey", "cluster")


class Place(NamedTuple):
    """Place in which one work keeps its runs."""

    url: str
    folder: Path
    """Folder for the processes that use it."""
    database: Path | None = None
    """The file that grows, where there is one."""
    store: StoreProcess | None = None
    """`stepwell store`, where that is between."""


class Backend:
    """A store of a kind, while it is open."""

    def __init__(
        self,
        name: str,
        folder: Path,
        places: Callable[[Path], AbstractContextManager[Place]],
        server: Postgres | Redis | RedisCluster | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.server = server
        """The database, where it is a process."""
        self._places = places
        self._numbers = itertools.count(1)

    @contextmanager
    def fresh(self) -> Generator[Place]:
        """A place with nothing in it."""
        folder = self.folder / str(next(self._numbers))
        folder.mkdir(parents=True)
        with self._places(folder) as place:
            if not self.name.startswith("grpc:"):
                yield place
                return
            apart = folder / "store"
            # It refuses to mint a token where others could read it.
            apart.mkdir(mode=0o700)
            store = StoreProcess(place.url, apart)
            try:
                url = f"grpc://{store.target}?token_file={store.token}"
                yield place._replace(url=url, store=store)
            finally:
                store.stop()

    def pids(self, place: Place) -> list[int]:
        """Return the processes that stand behind a place: the database's, and `stepwell store`."""
        match self.server:
            case None:
                found = []
            case RedisCluster() as cluster:
                found = [node.pid for node in cluster.nodes]
            case server:
                found = _family(server.pid)
        return found + ([place.store.pid] if place.store else [])


def _family(pid: int) -> list[int]:
    return [pid, *(one for child in children(pid) for one in _family(child))]


@contextmanager
def opened(name: str, folder: Path) -> Generator[Backend]:
    """Open a store by its name in `NAMES`, or `grpc:` and one of these."""
    own = folder / name.replace(":", "-")
    own.mkdir()
    with ExitStack() as stack:
        match name.removeprefix("grpc:"):
            case "memory":
                yield Backend(name, own, _in_memory)
            case "sqlite":
                yield Backend(name, own, _in_file)
            case "postgres":
                server = stack.enter_context(Postgres(18, settings={"shared_buffers": "256MB"}))
                yield Backend(name, own, lambda at: _in_postgres(server, at), server)
            case "redis" | "valkey" as kind:
                single = stack.enter_context(Redis(kind))
                yield Backend(name, own, lambda at: _in_redis(single, at), single)
            case "cluster":
                cluster = stack.enter_context(RedisCluster())
                yield Backend(name, own, lambda at: _in_redis(cluster, at), cluster)
            case _:
                raise SystemExit(f"no store {name!r}; known: {', '.join(NAMES)}, and grpc:NAME")


@contextmanager
def _in_memory(folder: Path) -> Generator[Place]:
    yield Place("memory://", folder)


@contextmanager
def _in_file(folder: Path) -> Generator[Place]:
    path = folder / "runs.db"
    yield Place(f"sqlite:///{path}", folder, path)
    for part in folder.glob("runs.db*"):
        part.unlink()


@contextmanager
def _in_postgres(server: Postgres, folder: Path) -> Generator[Place]:
    name = server.new_database()
    yield Place(server.url(name), folder)
    server.drop_database(name)


@contextmanager
def _in_redis(server: Redis | RedisCluster, folder: Path) -> Generator[Place]:
    yield Place(server.url(prefix=f"bench{folder.name}"), folder)
    server.flush()
