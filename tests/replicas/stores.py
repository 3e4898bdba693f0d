"""The stores that replicas share, each a real server. A new one joins by a line in `STORES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.backends.shared import postgres_server, redis_cluster
from tests.replicas.programs import Port, Program, wait_for


class Shared(NamedTuple):
    """A store that is up, with nothing in it."""

    url: str
    interrupt: Callable[[], None] | None = None
    """SIGKILL it in the middle of whatever it does, and start it again; None: it is left alone."""
    program: Program | None = None
    """The store's own process, where it is one."""


@contextmanager
def store_service(folder: Path) -> Iterator[Shared]:
    """`stepwell store` over SQLite: one process that all replicas dial."""
    port = Port()
    driver = f"sqlite:///{folder / 'store.db'}"
    arguments = ["-m", "stepwell", "store", "--driver", driver, "--port", str(port.number)]
    program = Program("store", folder, arguments)

    def start() -> None:
        program.start()
        wait_for(program, "listens on")

    def interrupt() -> None:
        program.kill()
        start()

    try:
        start()
        yield Shared(f"grpc://127.0.0.1:{port.number}", interrupt, program)
    finally:
        program.kill()
        port.close()


@contextmanager
def postgres(folder: Path) -> Iterator[Shared]:
    """A database of its own in the process's one server."""
    server = postgres_server()
    name = server.new_database()
    try:
        yield Shared(server.url(name) + "?sslmode=disable")
    finally:
        server.start()
        server.drop_database(name)


@contextmanager
def redis_of_three(folder: Path) -> Iterator[Shared]:
    """The process's one cluster of three masters, emptied."""
    cluster = redis_cluster()
    cluster.flush()
    yield Shared(cluster.url())


STORES: dict[str, Callable[[Path], AbstractContextManager[Shared]]] = {
    "grpc": store_service,
    "postgres": postgres,
    "redis_cluster": redis_of_three,
}
