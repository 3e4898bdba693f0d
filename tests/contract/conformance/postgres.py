"""The Postgres driver under the suite: a real server, and a clock that tests move by hand.

One server a process, and a few schemas in it that are emptied between tests: making one takes a hundred
times as long. The store's clock is a function of its schema; here it reads a table and stands still.
"""

from __future__ import annotations

import atexit
import itertools
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store as open_by_url
from stepwell_drivers.sql import schema
from tests.contract.conformance.urls import UrlFactory
from tests.support.backends.postgres import Postgres

BIRTH_US = 1_700_000_000_000_000

CLOCK = """
CREATE TABLE test_clock (us bigint NOT NULL);
CREATE OR REPLACE FUNCTION stepwell_now_us() RETURNS bigint LANGUAGE sql VOLATILE AS
'SELECT us FROM test_clock';
"""
EMPTY = "; ".join(f"DELETE FROM {table.name}" for table in schema.metadata.sorted_tables)

_spare: list[str] = []
_numbers = itertools.count(1)


@cache
def server() -> Postgres:
    """This process' own."""
    started = Postgres(18).start()
    atexit.register(started.close)
    return started


@cache
def database() -> str:
    return server().new_database()


class PostgresFactory(UrlFactory):
    """As `stepwell serve --store postgresql://…` opens it."""

    name = "postgres"
    durability = Durability.POWER
    options = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.used: list[str] = []
        self._admin: asyncpg.Connection[Any] | None = None

    async def at(self, url: str) -> Store:
        # What the driver itself waits for, between tries, it really waits for.
        store = await open_by_url(url, runtime=SystemRuntime())
        self.opened[id(store)] = (store, url)
        return store

    async def open(self) -> Store:
        made = bool(_spare)
        name = _spare.pop() if made else f"test_{next(_numbers)}"
        self.used.append(name)
        url = f"{self.base_url()}?sslmode=disable&schema={name}{self.options}"
        if not made:
            await (await open_by_url(url, runtime=SystemRuntime())).close()
            await self.execute(f"SET search_path = {name}; {CLOCK}")
        await self.execute(
            f"SET search_path = {name}; {EMPTY}; DELETE FROM test_clock;"
            f" INSERT INTO test_clock VALUES ({BIRTH_US})"
        )
        return await self.at(url)

    def base_url(self) -> str:
        return server().url(database())

    async def join(self, store: Store) -> Store:
        return await self.at(self.opened[id(store)][1])

    async def advance(self, ms: float) -> None:
        for name in self.used:
            await self.execute(f"UPDATE {name}.test_clock SET us = us + {round(ms * 1_000)}")

    async def step_wall(self, ms: float) -> None:
        """Nothing to do: the store asks the server."""

    async def execute(self, sql: str) -> None:
        if self._admin is None:
            self._admin = await asyncpg.connect(server().url(database()))
        await self._admin.execute(sql)

    async def close(self) -> None:
        await super().close()
        _spare.extend(self.used)
        self.used.clear()
        if self._admin is not None:
            await self._admin.close()
            self._admin = None
