"""Servers of our own for the tests of the servers themselves, and a proxy before one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.shared import POSTGRES_URL, REDIS_URL, shared


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of ours, also where one's own are named."""
    monkeypatch.delenv(POSTGRES_URL, raising=False)
    monkeypatch.delenv(REDIS_URL, raising=False)


@pytest.fixture
def redis(backends: None) -> Redis:
    server = shared(Redis, appendfsync=None)
    server.flush()
    return server


@pytest.fixture
async def redis_proxy(redis: Redis) -> AsyncIterator[Proxy]:
    async with Proxy(redis.port) as proxy:
        yield proxy
