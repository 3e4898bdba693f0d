"""The logs of all runs: appended apart from commits, trimmed, and purged by the moment of appending.

A row's number is never given twice, so a cursor stays good whatever is removed.
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
"""Entries that a purge looks at before it decides whether to go on."""


class LogWork(NamedTuple):
    """`Store.append_logs`; answers whether there is such a run."""

    tenant_id: str
    run_id: str
    entries: Sequence[LogEntry]


_RUN = ("tenant_id", "run_id")
_insert_logs = Insert(schema.logs, ("run_key", "execution_id", "kind", "appended_us", "body"))
# Nobody may delete the run meanwhile; commits may go on.
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
# Those that somebody else removes just now are left to him: so neither waits for the other.
_oldest = Query(
    select(_logs.seq, _logs.appended_us)
    .where(_logs.seq > bindparam("after"))
    .order_by(_logs.seq)
    .limit(bindparam("many"))
    .with_for_update(skip_locked=True)
)
_drop = Delete(schema.logs, ("seq",))


def append_logs(connection: Link, works: Sequence[LogWork], now_us: int) -> set[tuple[str, str]]:
    """Append to the logs of the runs that are there; return which are."""
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
    """Remove what executions wrote of one kind each; return how many entries of each."""
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
    """Return the numbers of the runs that are there, and keep these from being deleted meanwhile."""
    keys = dict.fromkeys((work.tenant_id, work.run_id) for work in works)
    return {(row[0], row[1]): row[2] for row in _pick_runs.run(connection, list(keys))}


def purge_logs(connection: Link, work: OldLogs, now_us: int) -> int:
    """Remove entries that were appended long ago, in the order of their rows; return how many.

    It ends at the first one that is newer: what lies behind costs nothing.
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
