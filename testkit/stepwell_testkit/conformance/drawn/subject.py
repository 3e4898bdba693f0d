"""The store under test: opened, joined, closed and opened again."""

from __future__ import annotations

from stepwell.core.port import Store
from stepwell_testkit.conformance.harness import StoreFactory


class Subject:
    """One store of a driver, with two connections to it, for one program after another."""

    def __init__(self, factory: StoreFactory) -> None:
        self.factory = factory
        self.left_out = factory.excuses.keys()
        """Optional groups of the contract that the driver leaves out."""
        self._connections: tuple[Store, Store] | None = None

    @property
    def option(self) -> str:
        """The option of the replay command that opens the same store."""
        kind = type(self.factory)
        return f"--factory {kind.__module__}:{kind.__qualname__}"

    async def connection(self, index: int) -> Store:
        """Return one of the connections; the first call opens the store."""
        if self._connections is None:
            store = await self.factory.open()
            self._connections = (store, await self.factory.join(store))
        return self._connections[index]

    async def reopen(self) -> None:
        """Close the store and open the same one again."""
        store, other = await self.connection(0), await self.connection(1)
        if other is not store:
            await other.close()
        store = await self.factory.reopen(store)
        self._connections = (store, await self.factory.join(store))

    async def drop(self) -> None:
        """Abandon this store; the next program gets another."""
        connections, self._connections = self._connections, None
        for store in dict.fromkeys(connections or ()):
            await store.close()
