"""Factories that open by URL, for the suite: what each driver's own factory begins with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store as open_by_url
from stepwell_testkit.runtime import ManualRuntime
from tests.service.store_server import StoreServer


class UrlFactory:
    """Opens by URL, on a runtime whose clocks are moved by hand."""

    name = ""
    durability = Durability.VOLATILE
    excuses: Mapping[str, str] = {}
    grain_ms = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = ManualRuntime(self.name)
        self.opened: dict[int, tuple[Store, str]] = {}
        self.births = 0

    def new_url(self) -> str:
        raise NotImplementedError

    async def at(self, url: str) -> Store:
        store = await open_by_url(url, runtime=self.runtime)
        self.opened[id(store)] = (store, url)
        return store

    async def open(self) -> Store:
        self.births += 1
        return await self.at(self.new_url())

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return await self.at(self.opened[id(store)][1])

    async def join(self, store: Store) -> Store:
        return store

    async def advance(self, ms: float) -> None:
        self.runtime.advance(ms)

    async def step_wall(self, ms: float) -> None:
        self.runtime.step_wall(ms)

    async def close(self) -> None:
        for store, _ in self.opened.values():
            await store.close()


class RemoteFactory(UrlFactory):
    """A Store service in front of another driver. The clock is that of the store behind it."""

    inner: type[UrlFactory]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.behind = self.inner(folder)
        self.servers: dict[str, tuple[StoreServer, Store]] = {}

    async def at(self, url: str) -> Store:
        # What the driver itself waits for, between tries, it really waits for.
        store = await open_by_url(url, runtime=SystemRuntime())
        self.opened[id(store)] = (store, url)
        return store

    async def serve(self, store: Store) -> Store:
        server = await StoreServer(store, self.folder).start()
        self.servers[server.url] = (server, store)
        return await self.at(server.url)

    async def open(self) -> Store:
        return await self.serve(await self.behind.open())

    async def reopen(self, store: Store) -> Store:
        await store.close()
        server, behind = self.servers[self.opened[id(store)][1]]
        await server.close()
        return await self.serve(await self.behind.reopen(behind))

    async def join(self, store: Store) -> Store:
        return await self.at(self.opened[id(store)][1])

    async def advance(self, ms: float) -> None:
        await self.behind.advance(ms)

    async def step_wall(self, ms: float) -> None:
        await self.behind.step_wall(ms)

    async def close(self) -> None:
        await super().close()
        for server, _ in self.servers.values():
            await server.close()
        await self.behind.close()
