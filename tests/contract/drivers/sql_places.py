"""The places that a test of both SQL drivers is played in: a SQLite file and a schema in a Postgres."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import open_store
from stepwell_drivers.sql.store import SqlStore
from tests.contract.drivers.postgres_place import Place
from tests.support.backends.shared import postgres_server


class File:
    """A SQLite store in a file of a test's own, as `Place` is one in a Postgres."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a.db"

    async def open(self) -> SqlStore:
        store = await open_store(self.url(), runtime=SystemRuntime())
        assert isinstance(store, SqlStore)
        return store

    def url(self) -> str:
        return f"sqlite:///{self.path}"

    async def run_script(self, sql: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as file:
            file.executescript(sql)

    async def fetch(self, sql: str) -> Sequence[Any]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as file:
            return file.execute(sql).fetchall()


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[File | Place]:
    if request.param == "sqlite":
        yield File(tmp_path)
        return
    found = Place(postgres_server())
    yield found
    await found.close()


@pytest.fixture
async def store(place: File | Place) -> AsyncIterator[SqlStore]:
    opened = await place.open()
    yield opened
    await opened.close()
