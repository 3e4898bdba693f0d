"""A schema of a test's own in a Postgres, the doors to it, and a connection past them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import asyncpg

from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.postgres import open_store
from stepwell_drivers.sql.store import SqlStore
from tests.support.backends.postgres_client import PostgresClient

_names = itertools.count(1)


class Place:
    """A schema of a test's own, the doors to it, and a connection past them."""

    def __init__(self, server: PostgresClient) -> None:
        self.server = server
        self.schema = f"place_{next(_names)}"
        self.doors: list[SqlStore] = []

    def url(self, **options: Any) -> str:
        return self.server.url("postgres", sslmode="disable", schema=self.schema, **options)

    async def open(self, **options: str) -> SqlStore:
        store = await open_store(self.url(**options), runtime=SystemRuntime())
        assert isinstance(store, SqlStore)
        self.doors.append(store)
        return store

    async def client(self) -> asyncpg.Connection[Any]:
        return await asyncpg.connect(
            self.server.url("postgres", sslmode="disable"),
            server_settings={"search_path": self.schema},
        )

    async def fetch(self, sql: str) -> Sequence[Any]:
        client = await self.client()
        try:
            return await client.fetch(sql)
        finally:
            await client.close()

    async def run_script(self, sql: str) -> None:
        """Run statements as psql does: one after another, in transactions of their own."""
        client = await asyncpg.connect(self.server.url("postgres", sslmode="disable"))
        try:
            await client.execute(sql)
        finally:
            await client.close()

    async def close(self) -> None:
        for door in self.doors:
            await door.close()
