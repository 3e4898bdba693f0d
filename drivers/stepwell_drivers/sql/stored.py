"""Reads what verdicts depend on in SQLite: versions, lease tokens, tombstones.

It has one writer, so nothing moves on meanwhile. In Postgres a function does this, see `postgres/commits.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

from sqlalchemy import text

from stepwell.core.port import Commit
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import RowKey
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Pick, Query

RunKey = tuple[str, str]
Clock = Callable[[Link], int]
"""Returns the store's time in microseconds."""

_RUN = ("tenant_id", "run_id")
_versions = Pick(schema.runs, _RUN, (*_RUN, "version", "run_key", "commit_id"))
_last_key = Query(text("SELECT seq FROM sqlite_sequence WHERE name = 'run_rows'"))
_tombstones = Pick(schema.tombstones, _RUN, (*_RUN, "expires_us", "family_id"))
_STEP = ("run_key", "execution_id")
_tokens = Pick(schema.executions, _STEP, (*_STEP, "token"))

_now = Query(text("SELECT stepwell_now_us()"))


class Stored(NamedTuple):
    """The stored facts of a group's runs."""

    keys: dict[RunKey, int]
    """The numbers of these runs; of those that are to be created, the ones that they will have."""
    versions: dict[RunKey, int]
    ids: dict[RunKey, str]
    """The commit ids of those versions."""
    tokens: dict[RowKey, str]
    tombstoned: set[RunKey]
    """The runs that a tombstone keeps from being created."""
    now_us: int


def database_clock(connection: Link) -> int:
    """Return Postgres' time, which is the store's."""
    return _now.run(connection)[0][0]


def read_stored(connection: Link, commits: Sequence[Commit], clock: Clock) -> Stored:
    """Return the stored facts of these commits' runs."""
    runs = list(dict.fromkeys((commit.tenant_id, commit.run_id) for commit in commits))
    created = list(
        dict.fromkeys((one.tenant_id, one.run_id) for one in commits if one.version == 1)
    )
    now_us = clock(connection)
    keys: dict[RunKey, int] = {}
    versions: dict[RunKey, int] = {}
    ids: dict[RunKey, str] = {}
    for tenant_id, run_id, version, run_key, commit_id in _versions.run(connection, runs):
        key = (tenant_id, run_id)
        keys[key], versions[key], ids[key] = run_key, version, commit_id
    fenced = dict.fromkeys(
        (keys[commit.tenant_id, commit.run_id], fence.execution_id)
        for commit in commits
        for fence in commit.fences
        if (commit.tenant_id, commit.run_id) in keys
    )
    absent = [key for key in created if key not in versions]
    if absent:
        last = _last_key.first(connection)
        keys |= zip(absent, count(last[0] + 1 if last else 1), strict=False)
    return Stored(
        keys,
        versions,
        ids,
        {(row[0], row[1]): row[2] or "" for row in _tokens.run(connection, list(fenced))},
        tombstoned(connection, absent, now_us),
        now_us,
    )


def tombstoned(connection: Link, runs: Sequence[RunKey], now_us: int) -> set[RunKey]:
    """Return the runs that have a live tombstone."""
    rows = _tombstones.run(connection, runs)
    # A tombstone with a family never expires: the run's outcomes must not become another's.
    return {(row[0], row[1]) for row in rows if row[2] > now_us or row[3]}
