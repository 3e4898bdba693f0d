"""A real server over a store, with real clients and workers, for what agents need of it.

`served` runs a test on memory, `served_everywhere` on every kind of store: one path of each
capability, since the conformance suite says that stores are equal. What a test starts ends with it; a second
replica over the same store and a restart are one call away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwell.config import ExecutorSettings, Settings
from stepwell.core.port import Store
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import Agent, Client, Worker
from stepwell_testkit.proxy import StoreProxy
from tests.service.conftest import bearer, settings_for, token
from tests.support.backends.shared import postgres_server, redis_server

__all__ = ["Served", "bearer"]


@contextmanager
def _memory(folder: Path) -> Iterator[str]:
    # A separate name, which replicas of one test share and other tests don't.
    yield f"memory://{folder.as_posix().replace('/', '.')}"


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder / 'stepwell.db'}"


@contextmanager
def _postgres(_folder: Path) -> Iterator[str]:
    server = postgres_server()
    name = server.new_database()
    try:
        yield server.url(name) + "?sslmode=disable"
    finally:
        server.drop_database(name)


@contextmanager
def _redis(_folder: Path) -> Iterator[str]:
    server = redis_server("redis")
    server.flush()
    yield server.url()


STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
}
Door = Callable[[Store], Store]
"""Puts something between a server and its store."""
TENANT = "tenant-a"
"""That of `client`."""
QUICK = ExecutorSettings(poll_ms=100, hold_ms=200, presence_ms=200)
"""Leases stay long: a machine that stands still costs none. `silence.py` ends those that are to end."""


class Served:
    """A store with a server over it. `client` is the tenant's own, with every scope it may have."""

    def __init__(
        self, stack: AsyncExitStack, folder: Path, store: str, url: str, door: Door | None = None
    ) -> None:
        self._stack = stack
        self._door = door
        self.folder = folder
        self.store_kind = store
        self.url = url
        self.server: Server
        self.client: Client

    @property
    def target(self) -> str:
        return self.server.addresses[0]

    @property
    def calm(self) -> bool:
        """Tell that nothing is put between: no call of a client is one that came before."""
        return self._door is None

    @property
    def store(self) -> Store:
        """The server's own door to the store, to look at rows: past what a test put before it."""
        store = self.server.store
        return store.inner if isinstance(store, StoreProxy) else store

    async def start(self, **groups: Any) -> None:
        """Start the server; groups of settings replace those of the tests."""
        self.server = await self.replica(**groups)
        self.client = self.new_client()

    async def replica(self, **groups: Any) -> Server:
        """Start another server over the same store (SQLite is one process's: there it can't be)."""
        settings, store = self.settings(**groups), None
        if self._door is not None:
            store = self._door(await open_store(self.url, runtime=SystemRuntime()))
        server = Server(settings, store=store)
        return await self._stack.enter_async_context(server)

    def settings(self, **groups: Any) -> Settings:
        groups.setdefault("executor", QUICK)
        return settings_for(self.url, self.folder, **groups)

    async def restart(self, **groups: Any) -> None:
        """End the server and start another one over what the store kept."""
        await self.client.close()
        if self.store_kind == "memory":
            await self.start(**groups)  # It lives as long as one of its doors is open.
            return
        await self.server.stop()
        await self.start(**groups)

    def new_client(self, name: str = "all", *, target: str = "") -> Client:
        client = Client(target or self.target, token=token(name))
        self._stack.push_async_callback(client.close)
        return client

    @asynccontextmanager
    async def worker(
        self, agent: Agent, *, target: str = "", **options: Any
    ) -> AsyncIterator[Worker]:
        """Serve an agent until the block ends; what it has then, it hands back."""
        async with (
            Client(target or self.target, token=token("all")) as client,
            Worker(agent, client, **options) as worker,
        ):
            await worker.connected()
            yield worker
            await worker.drain(0.0)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A server over memory."""
    async with served_on("memory", tmp_path) as made:
        yield made


@pytest.fixture(params=STORES)
async def served_everywhere(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Served]:
    """A server over each kind of store, for the one path of a capability that is played on all."""
    async with served_on(request.param, tmp_path) as made:
        yield made


@asynccontextmanager
async def served_on(kind: str, folder: Path) -> AsyncIterator[Served]:
    """Start a server over a store of this kind."""
    with STORES[kind](folder) as url:
        async with AsyncExitStack() as stack:
            served = Served(stack, folder, kind, url)
            await served.start()
            yield served
