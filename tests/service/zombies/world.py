"""Replicas in this process over any kind of store, for workers that come too late."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from stepwell.config import ExecutorSettings
from stepwell.core.port import Store
from stepwell.rpc.server import Server
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from tests.service.capabilities.conftest import STORES
from tests.service.conftest import Client, settings_for
from tests.service.store_server import StoreServer
from tests.support.backends.shared import redis_cluster

TENANT = "tenant-a"
"""The tenant of the token that all calls here bear."""
LEASE_MS = 60_000
"""Longer than any of these tests: what is to run out sooner says so itself."""
EXECUTOR = ExecutorSettings(lease_ms=LEASE_MS, poll_ms=100, hold_ms=50, presence_ms=1_000)


class World:
    """One store, its replicas, and a client of each."""

    def __init__(self, kind: str, servers: list[Server], clients: list[Client]) -> None:
        self.kind = kind
        self.servers = servers
        self.clients = clients

    @property
    def store(self) -> Store:
        return self.servers[0].store

    def counted(self, name: str) -> int:
        """Return a count of the executors, over all replicas."""
        return sum(server.deps.executor.stats.get(name, 0) for server in self.servers)


@asynccontextmanager
async def _remote(folder: Path) -> AsyncIterator[str]:
    """A Store service over SQLite, in this process."""
    store = await open_store(f"sqlite:///{folder / 'behind.db'}", runtime=SystemRuntime())
    service = await StoreServer(store, folder).start()
    try:
        yield service.url
    finally:
        await service.close()
        await store.close()


@asynccontextmanager
async def _cluster(_folder: Path) -> AsyncIterator[str]:
    nodes = redis_cluster()
    nodes.flush()
    yield nodes.url()


@asynccontextmanager
async def _plain(kind: str, folder: Path) -> AsyncIterator[str]:
    with STORES[kind](folder) as url:
        yield url


PLACES: dict[str, Callable[[Path], AbstractAsyncContextManager[str]]] = {
    "memory": lambda folder: _plain("memory", folder),
    "sqlite": lambda folder: _plain("sqlite", folder),
    "postgres": lambda folder: _plain("postgres", folder),
    "redis": lambda folder: _plain("redis", folder),
    "redis_cluster": _cluster,
    "remote": _remote,
}
"""The place of a store of each kind: an empty one, for as long as the block lasts."""


@asynccontextmanager
async def world_on(kind: str, folder: Path) -> AsyncIterator[World]:
    """Two replicas over one store; SQLite's file is one process's, so it has one."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(PLACES[kind](folder))
        servers: list[Server] = []
        clients: list[Client] = []
        for _ in range(1 if kind == "sqlite" else 2):
            server = Server(settings_for(url, folder, executor=EXECUTOR))
            servers.append(await stack.enter_async_context(server))
            clients.append(Client(server.addresses[0]))
            stack.push_async_callback(clients[-1].channel.close)
        yield World(kind, servers, clients)
