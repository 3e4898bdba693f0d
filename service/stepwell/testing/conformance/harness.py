"""What a driver's author supplies, and what every case is given.

A test module of yours needs two things: `from stepwell.testing.conformance import *`, and a fixture
`open_store` that yields a `StoreFactory` for your driver (parametrise it for several).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

import pytest
import pytest_asyncio

from stepwell.core.ports import Store
from stepwell.core.states import Durability
from stepwell.runtime import SystemRuntime


class StoreFactory(Protocol):
    """Opens stores of one driver for the suite. One factory serves one test."""

    @property
    def name(self) -> str:
        """The driver's, for the list at the end of the run."""
        ...

    @property
    def durability(self) -> Durability:
        """The class that the opened stores must declare."""
        ...

    @property
    def excuses(self) -> Mapping[str, str]:
        """What the driver can't do: the name of a test, and the reason that is printed."""
        ...

    async def open(self) -> Store:
        """Open a store with nothing in it."""
        ...

    async def reopen(self, store: Store) -> Store:
        """Close this store and open the same one again, with what was acknowledged in it."""
        ...

    async def join(self, store: Store) -> Store:
        """Open another door to the same store, as another replica would.

        Where one process holds the store alone, return the store itself.
        """
        ...

    async def advance(self, ms: float) -> None:
        """Move the store's clock (and that of every door to it) forward by this much.

        A driver whose clock can't be moved may really wait, or excuse the cases about time.
        """
        ...

    @property
    def grain_ms(self) -> int:
        """How exactly `advance` moves the clock: 1 where time stands still otherwise."""
        ...

    async def step_wall(self, ms: float) -> None:
        """Set the wall clock of the store's process forth or back, without any time passing."""
        ...

    async def close(self) -> None:
        """Let go of all that was opened."""
        ...


@pytest_asyncio.fixture
async def store(open_store: StoreFactory) -> AsyncIterator[Store]:
    """Yield an empty store of the driver under test; it is closed after the test."""
    opened = await open_store.open()
    yield opened
    await open_store.close()


@pytest.fixture(autouse=True)
def excused(request: pytest.FixtureRequest) -> None:
    """Skip what the driver has excused by name, and print its reason."""
    if "open_store" in request.fixturenames:
        factory: StoreFactory = request.getfixturevalue("open_store")
        name = request.function.__name__
        if name in factory.excuses:
            pytest.skip(f"{factory.name}: {factory.excuses[name]}")


class Cases:
    """The base of all cases: asyncio, whatever mode pytest-asyncio is in."""

    pytestmark = pytest.mark.asyncio


async def turns(many: int = 5) -> None:
    """Let the event loop go round a few times."""
    for _ in range(many):
        await SystemRuntime().sleep(0)


async def soon(condition: Callable[[], bool], *, within_s: float = 5.0) -> bool:
    """Return whether a condition comes true before long."""
    for _ in range(int(within_s * 200)):
        if condition():
            return True
        await SystemRuntime().sleep(0.005)
    return condition()
