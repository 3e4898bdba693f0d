"""The drivers that the suite is run over: one factory class each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell.store.opener import open_store as open_by_url
from stepwell_testkit.conformance.groups import OPTIONAL
from stepwell_testkit.conformance.harness import StoreFactory
from stepwell_testkit.conformance.report import pytest_terminal_summary
from tests.contract.conformance.bare import BareStore
from tests.contract.conformance.postgres import PostgresFactory
from tests.contract.conformance.redis import (
    RedisClusterFactory,
    RedisFactory,
    ValkeyClusterFactory,
    ValkeyFactory,
)
from tests.contract.conformance.urls import RemoteFactory, UrlFactory

__all__ = ["UrlFactory", "pytest_terminal_summary"]


class MemoryFactory(UrlFactory):
    """No excuse: it is the reference."""

    name = "memory"
    durability = Durability.VOLATILE

    def new_url(self) -> str:
        return f"memory://{self.folder.as_posix().replace('/', '.')}.{self.births}"

    async def reopen(self, store: Store) -> Store:
        # Another door first: a memory store lives as long as one is open.
        again = await self.join(store)
        await store.close()
        return again

    async def join(self, store: Store) -> Store:
        return await self.at(self.opened[id(store)][1])


class BareFactory(MemoryFactory):
    """The reference without any optional group: the mandatory part stands alone."""

    name = "memory_bare"
    excuses: Mapping[str, str] = dict.fromkeys(OPTIONAL, "left out to show that the rest stands")

    async def at(self, url: str) -> Store:
        store = BareStore(await open_by_url(url, runtime=self.runtime))
        self.opened[id(store)] = (store, url)
        return store


class SqliteFactory(UrlFactory):
    """A file; one process, and one store object in it, holds it alone."""

    name = "sqlite"
    durability = Durability.POWER

    def new_url(self) -> str:
        return f"sqlite:///{self.folder / f'{self.births}.db'}"


class RemoteMemoryFactory(RemoteFactory):
    """The protocol alone: what the reference keeps, it carries."""

    name = "grpc_memory"
    durability = Durability.VOLATILE
    inner = MemoryFactory


class RemoteSqliteFactory(RemoteFactory):
    """As `stepwell store --driver sqlite:///…` serves it."""

    name = "grpc_sqlite"
    durability = Durability.POWER
    inner = SqliteFactory


FACTORIES: tuple[type[UrlFactory], ...] = (
    MemoryFactory,
    BareFactory,
    SqliteFactory,
    RemoteMemoryFactory,
    RemoteSqliteFactory,
    PostgresFactory,
    RedisFactory,
    ValkeyFactory,
    RedisClusterFactory,
    ValkeyClusterFactory,
)


@pytest.fixture(params=FACTORIES, ids=lambda factory: factory.name)
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreFactory]:
    factory = request.param(tmp_path)
    yield factory
    await factory.close()
