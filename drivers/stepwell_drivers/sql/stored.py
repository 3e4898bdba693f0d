"""Reads what verdicts depend on: versions, lease tokens, tombstones.

SQLite has one writer, so it just reads. In Postgres the runs are locked in the order of their keys, and
then their leases in the order of theirs: so no two groups wait for each other. All of it is one
statement, hence one snapshot; a run that moved on while its lock was awaited is seen by its version, and
the group reads again (its leases may have moved on too).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple

from sqlalchemy import Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from stepwell.core.port import Commit
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import RowKey
from stepwell_drivers.sql.dialect import Link, is_postgres
from stepwell_drivers.sql.statements import Pick, Query
from stepwell_drivers.sql.trouble import Raced

RunKey = tuple[str, str]
Clock = Callable[[Link], int]
"""Returns the store's time in microseconds."""

_RUN = ("tenant_id", "run_id")
_versions = Pick(schema.runs, _RUN, (*_RUN, "version", "run_key", "commit_id"))
_last_key = Query(text("SELECT seq FROM sqlite_sequence WHERE name = 'run_rows'"))
_tombstones = Pick(schema.tombstones, _RUN, (*_RUN, "expires_us", "family_id"))
_STEP = ("run_key", "execution_id")
_tokens = Pick(schema.executions, _STEP, (*_STEP, "token"))

_TEXTS = ARRAY(Text())
_now = Query(text("SELECT stepwell_now_us()"))
_look = Query(
    text(
        """
        WITH locked AS MATERIALIZED (
          SELECT r.tenant_id, r.run_id, r.run_key, r.version, r.commit_id,
            (SELECT before.version FROM run_rows AS before WHERE before.run_key = r.run_key) AS seen
          FROM unnest(:run_tenants, :runs) AS g(tenant_id, run_id)
          JOIN run_rows AS r ON r.tenant_id = g.tenant_id AND r.run_id = g.run_id
          ORDER BY r.tenant_id, r.run_id
          FOR NO KEY UPDATE OF r
        ), leased AS MATERIALIZED (
          SELECT e.run_key, e.execution_id, e.token
          FROM unnest(:lease_tenants, :lease_runs, :leases) AS g(tenant_id, run_id, execution_id)
          JOIN locked AS r ON r.tenant_id = g.tenant_id AND r.run_id = g.run_id
          JOIN executions AS e ON e.run_key = r.run_key AND e.execution_id = g.execution_id
          -- Not before all runs are locked.
          WHERE (SELECT count(*) FROM locked) >= 0
          ORDER BY e.run_key, e.execution_id
          FOR UPDATE OF e
        )
        SELECT 1, tenant_id, run_id, commit_id, version, seen, run_key FROM locked
        UNION ALL SELECT 2, execution_id, '', token, 0, 0, run_key FROM leased
          WHERE token IS NOT NULL
        UNION ALL SELECT 3, t.tenant_id, t.run_id, t.family_id, t.expires_us, 0, 0
          FROM unnest(:created_tenants, :created) AS g(tenant_id, run_id)
          JOIN tombstones AS t ON t.tenant_id = g.tenant_id AND t.run_id = g.run_id
        UNION ALL SELECT 5, g.tenant_id, g.run_id, '', 0, 0, nextval('run_rows_run_key_seq')
          FROM unnest(:created_tenants, :created) AS g(tenant_id, run_id)
          WHERE NOT EXISTS (SELECT FROM locked AS r
            WHERE r.tenant_id = g.tenant_id AND r.run_id = g.run_id)
        UNION ALL SELECT 4, '', '', '', stepwell_now_us(), 0, 0
        """
    ).bindparams(
        *[
            bindparam(name, type_=_TEXTS)
            for name in (
                *("run_tenants", "runs", "lease_tenants", "lease_runs", "leases"),
                *("created_tenants", "created"),
            )
        ]
    )
)
_NOTHING: list[list[str]] = [[], [], []]


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
    """Return the stored facts of these commits' runs.

    Raises:
        Raced: a run moved on meanwhile.
    """
    runs = list(dict.fromkeys((commit.tenant_id, commit.run_id) for commit in commits))
    created = list(
        dict.fromkeys((one.tenant_id, one.run_id) for one in commits if one.version == 1)
    )
    if is_postgres(connection.dialect):
        return _locked(connection, commits, runs, created)
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


def _columns(names: Iterable[tuple[str, ...]]) -> list[list[str]]:
    return [list(column) for column in zip(*names, strict=True)]


def tombstoned(connection: Link, runs: Sequence[RunKey], now_us: int) -> set[RunKey]:
    """Return the runs that have a live tombstone."""
    rows = _tombstones.run(connection, runs)
    # A tombstone with a family never expires: the run's outcomes must not become another's.
    return {(row[0], row[1]) for row in rows if row[2] > now_us or row[3]}


def _locked(
    connection: Link, commits: Sequence[Commit], runs: list[RunKey], created: list[RunKey]
) -> Stored:
    # Fenced leases, and all others that may change: their locks are taken in one order.
    leases = dict.fromkeys(
        (commit.tenant_id, commit.run_id, name)
        for commit in commits
        if commit.version > 1
        for name in (
            *[fence.execution_id for fence in commit.fences],
            *[execution.execution_id for execution in commit.executions],
        )
    )
    run_columns = _columns(runs) or _NOTHING
    lease_columns = _columns(leases) or _NOTHING
    created_columns = _columns(created) or _NOTHING
    rows = _look.run(
        connection,
        run_tenants=run_columns[0],
        runs=run_columns[1],
        lease_tenants=lease_columns[0],
        lease_runs=lease_columns[1],
        leases=lease_columns[2],
        created_tenants=created_columns[0],
        created=created_columns[1],
    )
    now_us = rows[-1][4]
    stored = Stored({}, {}, {}, {}, set(), now_us)
    # An execution's id uses the column of a tenant; a lease's token and a tombstone's family that of a commit's id.
    for kind, tenant_id, run_id, text_, number, seen, run_key in rows:
        key = (tenant_id, run_id)
        if kind == 1:
            if number != seen:
                raise Raced
            stored.keys[key], stored.versions[key], stored.ids[key] = run_key, number, text_
        elif kind == 2:
            stored.tokens[run_key, tenant_id] = text_
        elif kind == 5:
            stored.keys[key] = run_key
        elif kind == 3 and (number > now_us or text_):
            stored.tombstoned.add(key)
    return stored
