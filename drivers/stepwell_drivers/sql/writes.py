"""Every write but commits, and the group in which all kinds of writes become durable together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import bindparam, delete, literal_column, select

from stepwell.core.port import Commit, LogsOfExecution, OldLogs, Presence, Renewal
from stepwell.core.records.model import Session
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import RowKey
from stepwell_drivers.sql.columns import Values, bytes_of, to_json
from stepwell_drivers.sql.commits import apply_commits
from stepwell_drivers.sql.deletes import DeleteWork, delete_run
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.logs import (
    LogWork,
    append_logs,
    purge_logs,
    trim_logs,
)
from stepwell_drivers.sql.reservations import SwapWork, swap_keys
from stepwell_drivers.sql.statements import Delete, Insert, Pick, Query, Update
from stepwell_drivers.sql.stored import Clock


class CommitWork(NamedTuple):
    """`Store.commit`; answers with a list of CommitResult."""

    commits: Sequence[Commit]


class RenewWork(NamedTuple):
    """`Store.renew`; answers with a list of bool."""

    renewals: Sequence[Renewal]


class PresenceWork(NamedTuple):
    """`Store.put_presence`."""

    presences: Sequence[Presence]
    ttl_ms: int


Work = (
    CommitWork
    | RenewWork
    | PresenceWork
    | LogWork
    | LogsOfExecution
    | OldLogs
    | DeleteWork
    | SwapWork
)

Beat = tuple[str, str, str, str]
"""Tenant, run and execution of a lease, and a token."""

_RUN = ("tenant_id", "run_id")
_STEP = ("run_key", "execution_id")
_WORKER = ("tenant_id", "worker_id", "instance_id")

_pick_runs = Pick(schema.runs, _RUN, (*_RUN, "run_key"))
_pick_leases = Pick(schema.executions, _STEP, (*_STEP, "token", "limit_us"), lock={})
NO_SESSION = Session()
_PROGRESS = ("progress_media_type", "progress")
_SESSION = ("session_backend", "session_id")
_MOVED = ("deadline_us", "held_until_us")
_renew = {
    (False, False): Update(schema.executions, _STEP, _MOVED),
    (True, False): Update(schema.executions, _STEP, (*_MOVED, *_PROGRESS)),
    (False, True): Update(schema.executions, _STEP, (*_MOVED, *_SESSION)),
    (True, True): Update(schema.executions, _STEP, (*_MOVED, *_PROGRESS, *_SESSION)),
}
_PRESENCE = ("expires_us", "body")
_put_workers = Insert(schema.workers, (*_WORKER, *_PRESENCE), key=_WORKER, replaced=_PRESENCE)
_drop_workers = Delete(schema.workers, _WORKER)
_over = (
    schema.tombstones.c.expires_us <= bindparam("now_us"),
    # One with a family stays as long as that.
    schema.tombstones.c.family_id == literal_column("''"),
)
_deleted = delete(schema.commits).where(
    schema.commits.c.run_key.in_(select(schema.tombstones.c.run_key).where(*_over)),
    schema.commits.c.version < literal_column("0"),
)
_sweeps = [
    Query(delete(schema.workers).where(schema.workers.c.expires_us <= bindparam("now_us"))),
    Query(_deleted),
    Query(delete(schema.tombstones).where(*_over)),
]


def apply_group(connection: Link, works: Sequence[Work], clock: Clock) -> list[Any]:
    """Do everything that was asked for in one transaction, and answer each in its place.

    Who waits for none of the others may be done in any order: kinds go together, so that each is a
    few statements however many asked.
    """
    commits = [work for work in works if isinstance(work, CommitWork)]
    renewals = [work for work in works if isinstance(work, RenewWork)]
    answers: dict[int, Any] = {}
    results = iter(
        apply_commits(connection, [commit for work in commits for commit in work.commits], clock)
    )
    for work in commits:
        answers[id(work)] = [next(results) for _ in work.commits]
    if len(commits) == len(works):
        return [answers[id(work)] for work in works]
    now_us = clock(connection)
    renewed = iter(
        renew(connection, [renewal for work in renewals for renewal in work.renewals], now_us)
    )
    for work in renewals:
        answers[id(work)] = [next(renewed) for _ in work.renewals]
    put_presence(connection, [work for work in works if isinstance(work, PresenceWork)], now_us)
    logs = [work for work in works if isinstance(work, LogWork)]
    there = append_logs(connection, logs, now_us)
    for work in logs:
        answers[id(work)] = (work.tenant_id, work.run_id) in there
    trims = [work for work in works if isinstance(work, LogsOfExecution)]
    for work, removed in zip(trims, trim_logs(connection, trims), strict=True):
        answers[id(work)] = removed
    swaps = [work for work in works if isinstance(work, SwapWork)]
    for work, stands in zip(swaps, swap_keys(connection, swaps), strict=True):
        answers[id(work)] = stands
    for work in works:
        if isinstance(work, DeleteWork):
            answers[id(work)] = delete_run(connection, work, now_us)
        elif isinstance(work, OldLogs):
            answers[id(work)] = purge_logs(connection, work, now_us)
    return [answers.get(id(work)) for work in works]


def beat_of(renewal: Renewal) -> Beat:
    """Return the lease that a heartbeat is for, with the token that it shows."""
    return (renewal.tenant_id, renewal.run_id, renewal.execution_id, renewal.token)


def merged(renewals: Sequence[Renewal]) -> dict[Beat, Renewal]:
    """Return one heartbeat for each lease: the last one, with what those before brought and it doesn't."""
    beats: dict[Beat, Renewal] = {}
    for renewal in renewals:
        beat = beat_of(renewal)
        before = beats.get(beat)
        if before is not None:
            progress = before.progress if renewal.progress is None else renewal.progress
            session = before.session if renewal.session == NO_SESSION else renewal.session
            renewal = replace(renewal, progress=progress, session=session)
        beats[beat] = renewal
    return beats


def renew(connection: Link, renewals: Sequence[Renewal], now_us: int) -> list[bool]:
    """Move deadlines; of several heartbeats for one lease the last one stands. SQLite's way, see `postgres`."""
    if not renewals:
        return []
    beats = merged(renewals)
    runs = dict.fromkeys((tenant_id, run_id) for tenant_id, run_id, *_ in beats)
    numbers = {(row[0], row[1]): row[2] for row in _pick_runs.run(connection, list(runs))}
    keys = {beat: (numbers.get(beat[:2], 0), beat[2]) for beat in beats}
    stored: dict[RowKey, tuple[str | None, int | None]] = {
        (row[0], row[1]): (row[2], row[3])
        for row in _pick_leases.run(connection, list(dict.fromkeys(keys.values())))
    }
    rows: dict[tuple[bool, bool], list[Values]] = {}
    renewed: set[Beat] = set()
    for beat, renewal in beats.items():
        token, limit_us = stored.get(keys[beat], ("", 0))
        if not token or token != renewal.token:
            continue
        renewed.add(beat)
        deadline_us = now_us + renewal.lease_ms * 1_000
        deadline_us = min(deadline_us, limit_us) if limit_us else deadline_us
        session = renewal.session
        progress = () if renewal.progress is None else bytes_of(renewal.progress)
        names = () if session == NO_SESSION else (session.backend, session.session_id)
        row = (*keys[beat], deadline_us, 0, *progress, *names)
        rows.setdefault((bool(progress), bool(names)), []).append(row)
    for kind, several in rows.items():
        _renew[kind].run(connection, several)
    return [beat_of(renewal) in renewed for renewal in renewals]


def put_presence(connection: Link, works: Sequence[PresenceWork], now_us: int) -> None:
    """Remember workers for a while, or forget them now."""
    rows: dict[tuple[str, str, str], Values | None] = {}
    for work in works:
        expires_us = now_us + work.ttl_ms * 1_000
        for presence in work.presences:
            key = (presence.tenant_id, presence.worker_id, presence.instance_id)
            rows[key] = (*key, expires_us, to_json(presence)) if work.ttl_ms > 0 else None
    # In the order of their keys: replicas may tell of the same workers at once.
    _drop_workers.run(connection, sorted(key for key, row in rows.items() if row is None))
    _put_workers.run(connection, [row for _, row in sorted(rows.items()) if row is not None])


def sweep(connection: Link, now_us: int) -> None:
    """Remove what expired and would else stay for ever."""
    for query in _sweeps:
        query.run(connection, now_us=now_us)
