"""The store under test: opened, joined, closed and opened again, its clock moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stepwell.core.port import Runtime, Store
from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.states import Durability
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.runtime import ManualRuntime

OPTIONAL = frozenset({"filters", "delete", "feed", "logs", "presence", "keyed", "retention"})
"""Groups of the contract that a driver may leave out, and calls of a program with them."""


class Opener(Protocol):
    """The part of the conformance suite's `StoreFactory` that a subject needs."""

    @property
    def name(self) -> str:
        """The driver's."""
        ...

    @property
    def excuses(self) -> Mapping[str, str]:
        """The groups that the driver leaves out, with reasons; only those in OPTIONAL matter here."""
        ...

    async def open(self) -> Store:
        """Open a store with nothing in it."""
        ...

    async def reopen(self, store: Store) -> Store:
        """Close this store and open the same one again."""
        ...

    async def join(self, store: Store) -> Store:
        """Open another connection to the same store, or return the store itself."""
        ...

    async def advance(self, ms: float) -> None:
        """Move the store's clock forward."""
        ...

    async def close(self) -> None:
        """Close all that was opened."""
        ...


class Subject:
    """One store of a driver, with two connections to it, for one program after another."""

    def __init__(self, factory: Opener, *, moves: bool = True, text: str = "") -> None:
        self.factory = factory
        self.moves = moves
        """True if the clock of the store can be moved; else no time passes in a program."""
        kind = type(factory)
        self.text = text or f"--factory {kind.__module__}:{kind.__qualname__}"
        """The options that make the replay command open the same store."""
        self.left_out = OPTIONAL & factory.excuses.keys()
        """Optional groups of the contract that the driver doesn't keep."""
        self._connections: tuple[Store, Store] | None = None

    async def connection(self, index: int) -> Store:
        """Return one of the connections; the store is opened by the first that asks."""
        if self._connections is None:
            store = await self.factory.open()
            self._connections = (store, await self.factory.join(store))
        return self._connections[index % 2]

    async def reopen(self) -> None:
        """Close the store and open the same one again."""
        store, other = await self.connection(0), await self.connection(1)
        if other is not store:
            await other.close()
        store = await self.factory.reopen(store)
        self._connections = (store, await self.factory.join(store))

    async def advance(self, ms: int) -> None:
        """Move the store's clock."""
        await self.factory.advance(ms)

    async def drop(self) -> None:
        """Leave this store to itself; the next program has another."""
        connections, self._connections = self._connections, None
        for store in dict.fromkeys(connections or ()):
            await store.close()


class ByUrl:
    """Opens what a URL names. A store that is there is used as it is, and left as it was."""

    excuses: Mapping[str, str] = {}

    def __init__(self, url: str, *, manual_clock: bool) -> None:
        self.name = url.partition(":")[0]
        self._url = url
        self._manual = ManualRuntime(url)
        self._runtime: Runtime = self._manual if manual_clock else SystemRuntime()

    async def open(self) -> Store:
        """Open the store."""
        return await open_store(self._url, runtime=self._runtime)

    async def reopen(self, store: Store) -> Store:
        """Close it and open it again, where that leaves something of it."""
        if (await store.describe()).durability is Durability.VOLATILE:
            return store
        await store.close()
        return await self.open()

    async def join(self, store: Store) -> Store:
        """Open another connection, where that is possible and leads to the same store."""
        try:
            other = await self.open()
        except StoreRefused:
            return store
        if (await other.describe()).store_id == (await store.describe()).store_id:
            return other
        await other.close()
        return store

    async def advance(self, ms: float) -> None:
        """Move the clock of a store that takes its time from this process."""
        self._manual.advance(ms)

    async def close(self) -> None:
        """There is nothing but the stores."""
