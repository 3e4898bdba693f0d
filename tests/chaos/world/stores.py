"""The stores that replicas share, each a real server. A new one joins by a line in `STORES`.

SQLite, which one process holds, is there for one replica (`ALONE`): what is proved of three by killing
them is proved of one that way too.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.chaos.world.programs import Port, Program, wait_for
from tests.support.backends.postgres import Postgres
from tests.support.backends.redis import Redis
from tests.support.backends.shared import postgres_server, redis_cluster, redis_server

ALONE = "sqlite"
"""The one of `STORES` that takes a single replica."""


class Victim(Protocol):
    """A process, or a family of them, that may be killed at any time and begun again."""

    async def kill(self) -> None:
        """SIGKILL all of it."""
        ...

    async def revive(self) -> None:
        """Begin it again, and wait until it serves."""
        ...

    async def stop(self) -> None:
        """SIGSTOP all of it."""
        ...

    async def go_on(self) -> None:
        """SIGCONT."""
        ...


class Shared(NamedTuple):
    """A store that is up, with nothing in it."""

    url: str
    victims: tuple[Victim, ...] = ()
    """The processes of the store itself; none: it is left alone."""
    program: Program | None = None
    """The store's own process, where it is one of ours."""
    settle: Callable[[], None] | None = None
    """Blocks until whoever opens the store finds all of it: a node that is back may not serve at once."""


class Service:
    """`stepwell store`, to be killed."""

    def __init__(self, program: Program) -> None:
        self._program = program

    async def kill(self) -> None:
        self._program.kill()

    async def revive(self) -> None:
        self._program.start()
        await asyncio.to_thread(wait_for, self._program, "listens on")

    async def stop(self) -> None:
        self._program.signal(signal.SIGSTOP)

    async def go_on(self) -> None:
        self._program.signal(signal.SIGCONT)


class Database:
    """A database server with all of its children, to be killed. It is a plain object that blocks."""

    def __init__(self, server: Postgres | Redis) -> None:
        self._server = server

    async def kill(self) -> None:
        await asyncio.to_thread(self._server.kill)

    async def revive(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.freeze)

    async def go_on(self) -> None:
        await asyncio.to_thread(self._server.thaw)


@contextmanager
def sqlite(folder: Path) -> Iterator[Shared]:
    """A file: who is killed is the server that holds it."""
    yield Shared(f"sqlite:///{folder / 'alone.db'}")


@contextmanager
def store_service(folder: Path) -> Iterator[Shared]:
    """`stepwell store` over SQLite: one process that all replicas dial."""
    port = Port()
    driver = f"sqlite:///{folder / 'store.db'}"
    arguments = ["-m", "stepwell", "store", "--driver", driver, "--port", str(port.number)]
    program = Program("store", folder, arguments)
    try:
        program.start()
        wait_for(program, "listens on")
        yield Shared(f"grpc://127.0.0.1:{port.number}", (Service(program),), program)
    finally:
        program.kill()
        port.close()


@contextmanager
def postgres(folder: Path) -> Iterator[Shared]:
    """A database of its own in the process's one server."""
    server = postgres_server()
    name = server.new_database()
    victims = (Database(server),) if isinstance(server, Postgres) else ()
    try:
        yield Shared(server.url(name) + "?sslmode=disable", victims)
    finally:
        server.start()
        server.drop_database(name)


@contextmanager
def redis(folder: Path) -> Iterator[Shared]:
    """The process's one server, which flushes each write to its disk, emptied."""
    server = redis_server("redis", appendfsync="always")
    server.flush()
    victims = (Database(server),) if isinstance(server, Redis) else ()
    yield Shared(server.url(), victims)


@contextmanager
def redis_of_three(folder: Path) -> Iterator[Shared]:
    """The process's one cluster of three masters, emptied."""
    cluster = redis_cluster()
    cluster.flush()
    victims = tuple(map(Database, cluster.nodes))
    yield Shared(cluster.url(all_nodes=True), victims, settle=cluster.wait_ready)


STORES: dict[str, Callable[[Path], AbstractContextManager[Shared]]] = {
    "grpc": store_service,
    "postgres": postgres,
    "redis": redis,
    "redis_cluster": redis_of_three,
    ALONE: sqlite,
}
