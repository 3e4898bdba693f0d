"""The servers themselves are what is tested here."""

from tests.backends.fixtures import (
    backends,
    bouncer,
    cluster,
    postgres,
    postgres_database,
    postgres_proxy,
    redis,
    redis_proxy,
    valkey,
)

__all__ = [
    "backends",
    "bouncer",
    "cluster",
    "postgres",
    "postgres_database",
    "postgres_proxy",
    "redis",
    "redis_proxy",
    "valkey",
]
