"""Thin fixtures over `tests.support.backends.shared`: a fresh place in a server that the process shares.

from tests.support.backends.fixtures import *   # in a conftest
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.backends.cluster import RedisCluster
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.backends.postgres_client import OwnPostgres
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.redis_client import OwnRedis
from tests.support.backends.shared import (
    pgbouncer,
    postgres_server,
    redis_cluster,
    redis_server,
)

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


@pytest.fixture
def postgres(backends: None) -> Postgres | OwnPostgres:
    return postgres_server()


@pytest.fixture
def postgres_database(postgres: Postgres | OwnPostgres) -> Iterator[str]:
    """The name of an empty database, dropped afterwards."""
    name = postgres.new_database()
    yield name
    # A test may have left the server down.
    postgres.start()
    postgres.drop_database(name)


@pytest.fixture
def bouncer(backends: None) -> PgBouncer:
    return pgbouncer()


@pytest.fixture
def redis(backends: None) -> Redis | OwnRedis:
    """Emptied."""
    server = redis_server("redis")
    server.flush()
    return server


@pytest.fixture
def valkey(backends: None) -> Redis | OwnRedis:
    """Emptied."""
    server = redis_server("valkey")
    server.flush()
    return server


@pytest.fixture
def cluster(backends: None) -> RedisCluster:
    """Three masters, emptied."""
    nodes = redis_cluster()
    nodes.flush()
    return nodes


@pytest.fixture
async def postgres_proxy(postgres: Postgres | OwnPostgres) -> AsyncIterator[Proxy]:
    """A proxy before `postgres`: `postgres.url(name, port=postgres_proxy.port)`."""
    async with Proxy(postgres.port) as proxy:
        yield proxy


@pytest.fixture
async def redis_proxy(redis: Redis | OwnRedis) -> AsyncIterator[Proxy]:
    """A proxy before `redis`: `redis.url(port=redis_proxy.port)`."""
    async with Proxy(redis.port) as proxy:
        yield proxy
