"""The factory that a driver's author supplies, and the fixtures of every case.

A test module of yours needs two things: `from stepwell_testkit.conformance import *`, and a fixture
`open_store` that yields a `StoreFactory` for your driver (parametrise it for several).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache
from typing import Protocol

import pytest
import pytest_asyncio

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell.runtime import SystemRuntime
from stepwell_testkit.conformance.groups import excuse_of, misnamed, needed

DRIVER, GROUP, CASE, EXCUSE = (
    f"stepwell.conformance.{name}" for name in ("driver", "group", "case", "excuse")
)
"""Names of the properties by which a test's report describes its case."""


class StoreFactory(Protocol):
    """Opens stores of one driver for the suite. Each test gets its own factory."""

    @property
    def name(self) -> str:
        """The driver's name, for the list at the end of the run."""
        ...

    @property
    def durability(self) -> Durability:
        """The class that the opened stores must declare."""
        ...

    @property
    def excuses(self) -> Mapping[str, str]:
        """The features that the driver lacks, each with the reason that is printed.

        The keys are names of tests or of optional groups, see `groups.py`.
        """
        ...

    async def open(self) -> Store:
        """Open an empty store."""
        ...

    async def reopen(self, store: Store) -> Store:
        """Close this store and reopen it with everything that was acknowledged."""
        ...

    async def join(self, store: Store) -> Store:
        """Open another connection to the same store, as another replica would.

        If only one process may hold the store, return the store itself.
        """
        ...

    async def advance(self, ms: float) -> None:
        """Move the store's clock, for all its connections, forward by this much.

        A driver whose clock can't be moved may wait instead, or excuse the cases about time.
        """
        ...

    @property
    def grain_ms(self) -> int:
        """The precision of `advance`, in milliseconds: 1 if time otherwise stands still."""
        ...

    async def step_wall(self, ms: float) -> None:
        """Set the wall clock of the store's process forward or back, without time passing."""
        ...

    async def close(self) -> None:
        """Close everything that was opened."""
        ...


@pytest_asyncio.fixture
async def store(open_store: StoreFactory) -> AsyncIterator[Store]:
    """Yield an empty store of the driver under test; it is closed after the test."""
    opened = await open_store.open()
    yield opened
    await open_store.close()


class Cases:
    """The base of all cases: asyncio, whatever mode pytest-asyncio is in."""

    pytestmark = pytest.mark.asyncio


@cache
def case_names() -> frozenset[str]:
    """Return the names of all cases of the suite."""
    classes = Cases.__subclasses__()
    return frozenset(name for each in classes for name in vars(each) if name.startswith("test_"))


_excuses: Mapping[str, str] = {}
"""The excuses of the driver under test: one test runs at a time."""


def keeps(group: str) -> bool:
    """Return whether the driver under test keeps an optional group.

    Cases about many things at once leave out what the driver leaves out.
    """
    return group not in _excuses


@pytest.fixture(autouse=True)
def excused(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip excused cases, and note what the list at the end of the run needs."""
    # The class in which the case was written, because a driver's author may have subclassed it.
    where, _, case = request.function.__qualname__.partition(".")
    if "open_store" not in request.fixturenames or case not in case_names():
        yield
        return
    factory: StoreFactory = request.getfixturevalue("open_store")
    wrong = misnamed(factory.excuses, case_names())
    if wrong:
        pytest.fail(f"the excuses of {factory.name}: {'; '.join(wrong)}", pytrace=False)
    excuse = excuse_of(where, case, factory.excuses)
    # Another process may print the list, so this is part of the test's report.
    noted = {DRIVER: factory.name, GROUP: needed(where, case)[0], CASE: case}
    if excuse is not None:
        noted[EXCUSE] = excuse[0]
    request.node.user_properties.extend(noted.items())
    if excuse is not None:
        pytest.skip(f"{factory.name}: {excuse[1]}")
    global _excuses  # noqa: PLW0603 - a fixture's value would be an argument of half the suite
    _excuses = factory.excuses
    yield
    _excuses = {}


async def turns(many: int = 5) -> None:
    """Let the event loop turn a few times."""
    for _ in range(many):
        await SystemRuntime().sleep(0)


async def soon(condition: Callable[[], bool], *, within_s: float = 5.0) -> bool:
    """Return whether a condition becomes true in time."""
    for _ in range(int(within_s * 200)):
        if condition():
            return True
        await SystemRuntime().sleep(0.005)
    return condition()
