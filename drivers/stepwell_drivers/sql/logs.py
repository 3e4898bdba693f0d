"""The logs of all runs: appended outside of commits, trimmed, and purged by the time of appending.

Row numbers are never reused, so a cursor stays valid whatever is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select

from stepwell.core.port import LogsOfExecution, OldLogs
from stepwell.core.records.model import LogEntry
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.columns import to_json
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Delete, Insert, Pick, Query

PURGED_AT_ONCE = 512
"""The number of entries that a purge handles before it decides whether to continue."""


class LogWork(NamedTuple):
    """`Store.append_logs`; answers whether the run exists."""

    tenant_id: str
    run_id: str
    entries: Sequence[LogEntry]


_RUN = ("tenant_id", "run_id")
_insert_logs = Insert(schema.logs, ("run_key", "execution_id", "kind", "appended_us", "body"))
# Locked against deletion of the run; commits are not blocked.
_pick_runs = Pick(schema.runs, _RUN, (*_RUN, "run_key"), lock={"read": True, "key_share": True})
_logs = schema.logs.c
_trim = Query(
    delete(schema.logs)
    .where(
        schema.listed(_logs.run_key),
        _logs.run_key == bindparam("run_key"),
        _logs.execution_id == bindparam("execution_id"),
        _logs.kind == bindparam("kind"),
    )
    .returning(_logs.seq)
)
# Rows that another transaction is removing are skipped, so that neither waits.
_oldest = Query(
    select(_logs.seq, _logs.appended_us)
    .where(_logs.seq > bindparam("after"))
    .order_by(_logs.seq)
    .limit(bindparam("many"))
    .with_for_update(skip_locked=True)
)
_drop = Delete(schema.logs, ("seq",))


def append_logs(connection: Link, works: Sequence[LogWork], now_us: int) -> set[tuple[str, str]]:
    """Append to the logs of the runs that exist; return these runs."""
    numbers = _numbers(connection, works)
    rows = [
        (run_key, entry.execution_id, entry.kind.value, now_us, to_json(entry))
        for work in works
        if (run_key := numbers.get((work.tenant_id, work.run_id))) is not None
        for entry in work.entries
    ]
    _insert_logs.run(connection, rows)
    return set(numbers)


def trim_logs(connection: Link, works: Sequence[LogsOfExecution]) -> list[int]:
    """Remove the log entries of one kind of each given execution; return the count for each."""
    numbers = _numbers(connection, works)
    return [
        len(
            _trim.run(
                connection,
                run_key=numbers.get((work.tenant_id, work.run_id)),
                execution_id=work.execution_id,
                kind=work.kind.value,
            )
        )
        for work in works
    ]


def _numbers(
    connection: Link, works: Sequence[LogWork] | Sequence[LogsOfExecution]
) -> dict[tuple[str, str], int]:
    """Return the numbers of the runs that exist, and lock them against deletion."""
    keys = dict.fromkeys((work.tenant_id, work.run_id) for work in works)
    return {(row[0], row[1]): row[2] for row in _pick_runs.run(connection, list(keys))}


def purge_logs(connection: Link, work: OldLogs, now_us: int) -> int:
    """Remove old entries in the order of their rows; return how many.

    It stops at the first newer entry, so the rest costs nothing.
    """
    until_us = now_us - max(work.older_ms, 0) * 1_000
    removed, after, left = 0, -1, max(work.limit, 1)
    while left > 0:
        many = min(left, PURGED_AT_ONCE)
        rows = _oldest.run(connection, after=after, many=many)
        old = [(seq,) for seq, appended_us in rows if appended_us <= until_us]
        _drop.run(connection, old)
        removed += len(old)
        if len(old) < many:
            break
        left -= many
        after = rows[-1][0]
    return removed
