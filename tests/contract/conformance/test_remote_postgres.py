"""Random programs on the store service over Postgres; `grpc_memory` and `postgres` play the whole suite, each its half."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell.core.records.states import Durability
from stepwell_testkit.conformance import TestPrograms
from stepwell_testkit.conformance.harness import StoreFactory
from tests.contract.conformance.postgres import PostgresFactory
from tests.contract.conformance.urls import RemoteFactory

__all__ = ["TestPrograms"]


class RemotePostgresFactory(RemoteFactory):
    """As `stepwell store --driver postgresql://…` serves it."""

    name = "grpc_postgres"
    durability = Durability.POWER
    inner = PostgresFactory


@pytest.fixture(params=[RemotePostgresFactory], ids=["grpc_postgres"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreFactory]:
    factory: RemotePostgresFactory = request.param(tmp_path)
    yield factory
    await factory.close()
