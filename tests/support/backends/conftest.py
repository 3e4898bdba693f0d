"""The servers themselves are what is tested here."""

from __future__ import annotations

import pytest

from tests.support.backends.fixtures import (
    bouncer,
    cluster,
    postgres,
    postgres_database,
    postgres_proxy,
    redis,
    redis_proxy,
    valkey,
)
from tests.support.backends.shared import POSTGRES_URL, REDIS_URL

__all__ = [
    "bouncer",
    "cluster",
    "postgres",
    "postgres_database",
    "postgres_proxy",
    "redis",
    "redis_proxy",
    "valkey",
]


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of ours, also where one's own are named."""
    monkeypatch.delenv(POSTGRES_URL, raising=False)
    monkeypatch.delenv(REDIS_URL, raising=False)
