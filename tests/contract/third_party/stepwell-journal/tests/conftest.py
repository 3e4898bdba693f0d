"""Opens journals for the conformance suite, on clocks that it moves by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell.store.opener import open_store as open_by_url
from stepwell_testkit.conformance.report import pytest_terminal_summary
from stepwell_testkit.runtime import ManualRuntime

__all__ = ["pytest_terminal_summary"]


class JournalFactory:
    """A new file for each store."""

    name = "journal"
    durability = Durability.POWER
    excuses: Mapping[str, str] = {
        "logs": "each line would wait for the disk; workers can log where they run",
        "presence": "it is said every few seconds, and the file only grows",
        "journal": "each entry would wait for the disk; agents that record calls need another store",
    }
    grain_ms = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = ManualRuntime("journal")
        self.opened: list[tuple[Store, str]] = []

    async def open(self) -> Store:
        return await self._at(f"journal://{self.folder}/{len(self.opened)}.journal")

    async def _at(self, url: str) -> Store:
        store = await open_by_url(url, runtime=self.runtime)
        self.opened.append((store, url))
        return store

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return await self._at(next(url for opened, url in self.opened if opened is store))

    async def join(self, store: Store) -> Store:
        return store  # one process, and one store in it, holds the file

    async def advance(self, ms: float) -> None:
        self.runtime.advance(ms)

    async def step_wall(self, ms: float) -> None:
        self.runtime.step_wall(ms)

    async def close(self) -> None:
        for store, _ in self.opened:
            await store.close()


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[JournalFactory]:
    factory = JournalFactory(tmp_path)
    yield factory
    await factory.close()
