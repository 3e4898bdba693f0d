"""What the client's tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.client.fakes import TOKEN, FakeServer, FastRuntime, fake_server

from stepwell_client import Client


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as made:
        yield made


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with Client(server.target, token=TOKEN, runtime=FastRuntime()) as made:
        yield made
