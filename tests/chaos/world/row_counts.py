"""Counts of what a store keeps, taken past the server: rows by table, or Redis keys and their entries by kind."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.support.backends.shared import postgres_server, redis_server

RowCounts = Callable[[], Mapping[str, int]]

_LENGTHS = {
    "hash": "HLEN",
    "zset": "ZCARD",
    "stream": "XLEN",
    "list": "LLEN",
    "set": "SCARD",
}
_PER_RUN = frozenset({"rows", "index", "logs", "log-marks"})
"""Kinds of keys of which each run has one: these are counted, the entries of all others."""


def of_sqlite(url: str) -> Mapping[str, int]:
    """Count the rows of each table of a file."""
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            for (name,) in names.fetchall()
        }


def of_postgres(url: str) -> Mapping[str, int]:
    """Count the rows of each table of a database."""
    server, database = postgres_server(), urlsplit(url).path.removeprefix("/")
    names = server.fetch(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'stepwell'"
        " AND table_type = 'BASE TABLE'",
        database=database,
    )
    counted = " UNION ALL ".join(
        f"SELECT '{one[0]}', count(*) FROM stepwell.\"{one[0]}\"" for one in names
    )
    return {row[0]: row[1] for row in server.fetch(counted, database=database)}


def of_redis(_url: str) -> Mapping[str, int]:
    """Count the keys of runs by kind, and the entries of all other keys."""
    found: Counter[str] = Counter()
    with redis_server("redis", appendfsync="always").admin() as client:
        any_client: Any = client
        for key in any_client.scan_iter(count=1_000):
            text = key if isinstance(key, str) else key.decode()
            kind = text.rpartition("}")[2].partition(":")[0]
            if kind in _PER_RUN:
                found[f"keys of {kind}"] += 1
                continue
            length = _LENGTHS.get(any_client.type(key))
            found[kind] += any_client.execute_command(length, key) if length else 1
        found["keys"] = any_client.dbsize()
    return found


COUNTS: Mapping[str, Callable[[str], Mapping[str, int]]] = {
    "sqlite": of_sqlite,
    "postgres": of_postgres,
    "redis": of_redis,
}
"""Functions that count what is in a store, by its kind; each takes the store's URL and blocks."""
KEPT = frozenset(
    {
        *("alembic_version", "commits", "meta", "sqlite_sequence", "tombstones", "workers"),
        *("book", "feed", "feed-of", "deletions-of", "workers-until", "keys"),
    }
)
"""Rows and entries that outlive their runs, or were never a run's."""
