"""The world of the Store service's tests: a store that fails when asked to, and a server before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from stepwell.core.port import Commit, JournalWrite, Store
from stepwell.core.records.errors import StepwellError
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_drivers.memory.state import State
from stepwell_drivers.memory.store import MemoryStore
from stepwell_testkit.proxy import StoreProxy
from tests.service.store_server import StoreServer
from tests.support.patience import insisting

COMMITTED = Verdict.COMMITTED
Step = Callable[[], Coroutine[Any, Any, None]]


class Faulty(StoreProxy):
    """A store that does something of a test's before and after a commit or a journal write."""

    before: Step | None = None
    after: Step | None = None

    async def commit(self, commits: Sequence[Commit]) -> Any:
        return await self._write(self.inner.commit, commits)

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Any:
        return await self._write(self.inner.write_journal, writes)

    async def _write(self, write: Callable[[Any], Awaitable[Any]], items: Sequence[Any]) -> Any:
        before, self.before = self.before, None
        if before is not None:
            await before()
        results = await write(items)
        after, self.after = self.after, None
        if after is not None:
            await after()
        return results


class World:
    """A memory store, a server in front of it, and the doors that a test opens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.behind: Store = MemoryStore(State(SystemRuntime()))
        self.store = Faulty(self.behind)
        self.server = StoreServer(self.store, folder)
        self.doors: list[Store] = []

    async def open(self, more: str = "", *, port: int = 0) -> Store:
        address = self.server.url
        if port:
            address = address.replace(self.server.address, f"127.0.0.1:{port}")
        door = await open_store(address + more, runtime=SystemRuntime())
        self.doors.append(door)
        return door

    async def restart(self) -> None:
        """Start another server where the first one was."""
        address = self.server.address
        self.server = StoreServer(self.store, self.folder)
        await self.server.start(address)

    async def __aenter__(self) -> Self:
        await self.server.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for door in self.doors:
            await door.close()
        await self.server.close()
        await self.behind.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path) as made:
        yield made


async def verdicts(store: Store, *commits: Commit) -> list[Verdict]:
    return [result.verdict for result in await store.commit(commits)]


def raises(error: StepwellError) -> Step:
    async def step() -> None:
        raise error

    return step


async def until_there(store: Store, commit: Commit) -> list[Verdict]:
    """Send the commit until the store answers."""
    return await insisting(lambda: verdicts(store, commit))
