"""One server of each kind per test process, started when it is first asked for.

They live in memory where there is room (`memory_folder`), also those that flush each commit: for
figures, make a `Postgres` or `Redis` of your own, which lives on a disk.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from tests.support.backends import child
from tests.support.backends.child import memory_folder
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres, forget_initialised
from tests.support.backends.postgres_client import OwnPostgres
from tests.support.backends.redis import Redis
from tests.support.backends.redis_client import OwnRedis
from tests.support.backends.required import missing

POSTGRES_URL = "STEPWELL_TEST_POSTGRES_URL"
REDIS_URL = "STEPWELL_TEST_REDIS_URL"


class Running(Protocol):
    def start(self) -> object: ...
    def close(self) -> None: ...


R = TypeVar("R", bound=Running)
_running: dict[tuple[Any, ...], Running] = {}


def _key(value: object) -> object:
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


def shared(make: Callable[..., R], *arguments: object, **options: object) -> R:
    """The process's one server made with these arguments; up again if a test left it down."""
    child.before_start()
    key = (make, *arguments, *sorted((name, _key(value)) for name, value in options.items()))
    if key not in _running:
        _running[key] = make(*arguments, **options)
    server: Any = _running[key]
    server.start()
    return server


def postgres_server(version: int = 18, **options: Any) -> Postgres | OwnPostgres:
    """Arguments are those of `Postgres`; one's own server, if named, instead."""
    url = os.environ.get(POSTGRES_URL)
    if url:
        return shared(OwnPostgres, url)
    return shared(Postgres, version, **{"inside": memory_folder(), **options})


def redis_server(kind: str = "redis", **options: Any) -> Redis | OwnRedis:
    """Arguments are those of `Redis`; one's own server, if named, instead."""
    url = os.environ.get(REDIS_URL)
    if url:
        return shared(OwnRedis, url)
    return shared(Redis, kind, **{"inside": memory_folder(), **options})


def redis_cluster(kind: str = "redis", **options: Any) -> RedisCluster:
    """Arguments are those of `RedisCluster`; what a test killed in it is up again."""
    return shared(RedisCluster, kind, **{"inside": memory_folder(), **options})


def pgbouncer(**options: Any) -> PgBouncer:
    """Arguments are those of `PgBouncer`; it stands before `postgres_server()`."""
    server = postgres_server()
    if not isinstance(server, Postgres):
        missing("pgbouncer", f"{POSTGRES_URL} names a server that no PgBouncer of ours may reach")
    return shared(PgBouncer, server, **options)


def close(server: Running) -> None:
    """Ends one of them; the next who asks gets a new one."""
    for key, running in list(_running.items()):
        if running is server:
            del _running[key]
            server.close()


def stop_all() -> None:
    """Ends every server that was started here; the last one first."""
    while _running:
        _running.popitem()[1].close()
    forget_initialised()


atexit.register(stop_all)
