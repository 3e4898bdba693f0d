"""Three doors to one store, each through a TCP proxy: what is between a replica and its store, broken.

Postgres, Redis and the Store service have a proxy for each door. The nodes of a cluster have one each,
which they announce as their own address, so that all three doors go through all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from stepwell.core.port import Store
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from tests.service.store_server import StoreServer
from tests.support.backends.proxy import Proxy
from tests.support.backends.shared import postgres_server, redis_cluster, redis_server
from tests.support.patience import insisting

DOORS = 3
TIMEOUT_MS = 1_000
"""The time that a driver waits for a server that is silent."""


class Doors(NamedTuple):
    """A store with nothing in it, behind proxies."""

    doors: Sequence[Store]
    proxies: Sequence[Proxy]
    past: Store
    """Another door, past all proxies."""
    committing: bytes = b""
    """Bytes of a request that commits, and of few others; empty: none can be seen."""


async def _opened(stack: AsyncExitStack, url: str) -> Store:
    # Its limits are short, and this machine is busy.
    store = await insisting(lambda: open_store(url, runtime=SystemRuntime()))
    stack.push_async_callback(store.close)
    return store


async def _proxies(stack: AsyncExitStack, chance: Random, *ports: int) -> list[Proxy]:
    made = [Proxy(port, chance=chance) for port in ports]
    return [await stack.enter_async_context(proxy) for proxy in made]


@asynccontextmanager
async def _postgres(_folder: Path, chance: Random) -> AsyncIterator[Doors]:
    server = postgres_server()
    name = server.new_database()
    options: dict[str, Any] = {
        "sslmode": "disable",
        "statement_timeout_ms": f"{TIMEOUT_MS}",
        "pool_size": "3",
    }
    options |= {"lock_timeout_ms": f"{TIMEOUT_MS // 2}"}
    options |= {"connect_timeout_ms": f"{TIMEOUT_MS}"}
    try:
        async with AsyncExitStack() as stack:
            proxies = await _proxies(stack, chance, *[server.port] * DOORS)
            urls = [server.url(name, port=proxy.port, **options) for proxy in proxies]
            past = await _opened(stack, server.url(name, sslmode="disable"))
            # Every commit has a list of events.
            yield Doors([await _opened(stack, url) for url in urls], proxies, past, b'[{"')
    finally:
        server.drop_database(name)


@asynccontextmanager
async def _redis(_folder: Path, chance: Random) -> AsyncIterator[Doors]:
    server = redis_server("redis", appendfsync="always")
    server.flush()
    async with AsyncExitStack() as stack:
        proxies = await _proxies(stack, chance, *[server.port] * DOORS)
        timeout: dict[str, Any] = {"timeout_ms": f"{TIMEOUT_MS}"}
        urls = [server.url(port=proxy.port, **timeout) for proxy in proxies]
        past = await _opened(stack, server.url())
        yield Doors([await _opened(stack, url) for url in urls], proxies, past, b"EVALSHA")


@asynccontextmanager
async def _cluster(_folder: Path, chance: Random) -> AsyncIterator[Doors]:
    cluster = redis_cluster()
    cluster.flush()
    async with AsyncExitStack() as stack:
        # It learns the nodes' own addresses, as long as they still announce them.
        past = await _opened(stack, cluster.url())
        proxies = await _proxies(stack, chance, *(node.port for node in cluster.nodes))
        # The next client gets their own addresses from whichever node it asks.
        stack.callback(cluster.wait_announced)
        for index, proxy in enumerate(proxies):
            cluster.announce(index, proxy.port)
            stack.callback(cluster.announce, index, 0)
        cluster.wait_announced()
        url = f"{cluster.url(ports=[proxies[0].port])}?timeout_ms={TIMEOUT_MS}"
        yield Doors([await _opened(stack, url) for _ in range(DOORS)], proxies, past, b"EVALSHA")


@asynccontextmanager
async def _grpc(folder: Path, chance: Random) -> AsyncIterator[Doors]:
    async with AsyncExitStack() as stack:
        behind = await _opened(stack, f"sqlite:///{folder / 'store.db'}")
        server = await StoreServer(behind, folder).start()
        stack.push_async_callback(server.close)
        port = int(server.address.rpartition(":")[2])
        proxies = await _proxies(stack, chance, *[port] * DOORS)
        end = f"?token_file={server.token_file}&timeout_ms={TIMEOUT_MS}"
        urls = [f"grpc://127.0.0.1:{proxy.port}{end}" for proxy in proxies]
        yield Doors([await _opened(stack, url) for url in urls], proxies, behind)


STORES: dict[str, Callable[[Path, Random], AbstractAsyncContextManager[Doors]]] = {
    "postgres": _postgres,
    "redis": _redis,
    "redis_cluster": _cluster,
    "grpc": _grpc,
}
