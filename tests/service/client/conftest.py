"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stepwell_client import Agent, Client, TaskContext
from tests.service.client.fakes import TOKEN, FakeServer, FastRuntime, fake_server


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as made:
        yield made


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with Client(server.target, token=TOKEN, runtime=FastRuntime()) as made:
        yield made


@pytest.fixture
def agent() -> Agent:
    made = Agent("tester")

    @made.task("double")
    async def double(ctx: TaskContext, number: int) -> int:
        return 2 * number

    return made
