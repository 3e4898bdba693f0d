"""Every write but commits, and the group in which all kinds of writes become durable together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, literal_column, select

from stepwell.core.port import Commit, LogsOfExecution, OldLogs, Presence, Renewal
from stepwell.core.records.model import Payload, Session
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

_RUN = ("tenant_id", "run_id")
_STEP = ("run_key", "execution_id")
_WORKER = ("tenant_id", "worker_id", "instance_id")

_pick_runs = Pick(schema.runs, _RUN, (*_RUN, "run_key"))
_pick_leases = Pick(schema.executions, _STEP, (*_STEP, "token", "limit_us"), lock={})
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


def renew(connection: Link, renewals: Sequence[Renewal], now_us: int) -> list[bool]:
    """Move deadlines; of several heartbeats for one lease the last one stands."""
    if not renewals:
        return []
    runs = dict.fromkeys((renewal.tenant_id, renewal.run_id) for renewal in renewals)
    numbers = {(row[0], row[1]): row[2] for row in _pick_runs.run(connection, list(runs))}
    keys: list[RowKey] = [
        (numbers.get((renewal.tenant_id, renewal.run_id), 0), renewal.execution_id)
        for renewal in renewals
    ]
    stored: dict[RowKey, tuple[str | None, int | None]] = {
        (row[0], row[1]): (row[2], row[3])
        for row in _pick_leases.run(connection, list(dict.fromkeys(keys)))
    }
    answers: list[bool] = []
    beats: dict[RowKey, _Beat] = {}
    for key, renewal in zip(keys, renewals, strict=True):
        token, limit_us = stored.get(key, ("", 0))
        answers.append(bool(token) and token == renewal.token)
        if answers[-1]:
            deadline_us = now_us + renewal.lease_ms * 1_000
            deadline_us = min(deadline_us, limit_us) if limit_us else deadline_us
            beats[key] = _after(beats.get(key), renewal, deadline_us)
    rows: dict[tuple[bool, bool], list[Values]] = {}
    for key, beat in beats.items():
        progress = () if beat.progress is None else bytes_of(beat.progress)
        session = () if beat.session is None else (beat.session.backend, beat.session.session_id)
        kind = (bool(progress), bool(session))
        rows.setdefault(kind, []).append((*key, beat.deadline_us, 0, *progress, *session))
    for kind, several in rows.items():
        _renew[kind].run(connection, several)
    return answers


class _Beat(NamedTuple):
    """The merged heartbeats of one lease in one group."""

    deadline_us: int
    progress: Payload | None
    session: Session | None


def _after(before: _Beat | None, renewal: Renewal, deadline_us: int) -> _Beat:
    given = renewal.session
    session = given if given.backend or given.session_id else None
    if before is None:
        return _Beat(deadline_us, renewal.progress, session)
    progress = before.progress if renewal.progress is None else renewal.progress
    return _Beat(deadline_us, progress, before.session if session is None else session)


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
