"""The kinds of writes, and how all but commits and heartbeats are done; those differ between the databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace
from sqlalchemy import bindparam, delete, literal_column, select

from stepwell.core.port import Commit, LogsOfExecution, OldLogs, Presence, Renewal
from stepwell.core.records.cuts import text_bytes
from stepwell.core.records.journal import entry_bytes
from stepwell.core.records.model import Session
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.columns import Values, to_json
from stepwell_drivers.sql.deletes import DeleteWork, delete_run
from stepwell_drivers.sql.dialect import Clock, Link
from stepwell_drivers.sql.entries import RecordWork
from stepwell_drivers.sql.logs import (
    LogWork,
    append_logs,
    purge_logs,
    trim_logs,
)
from stepwell_drivers.sql.reservations import SwapWork, swap_keys
from stepwell_drivers.sql.statements import Delete, Insert, Query


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
    | RecordWork
    | RenewWork
    | PresenceWork
    | LogWork
    | LogsOfExecution
    | OldLogs
    | DeleteWork
    | SwapWork
)


def bytes_in(work: Work) -> int:
    """Return about how many bytes a work writes: payloads, texts of outcomes, messages, journal entries."""
    match work:
        case CommitWork(commits):
            return sum(map(_bytes_of, commits))
        case RecordWork(writes):
            return sum(entry_bytes(entry) for one in writes for entry in one.entries)
        case _:
            return 0


def _bytes_of(commit: Commit) -> int:
    size = len(commit.input.data) if commit.input is not None else 0
    for outcome in commit.outcomes:
        size += len(outcome.response) + len(outcome.prompt)
        if outcome.result is not None:
            size += len(outcome.result.data)
    for message in commit.messages:
        size += text_bytes(message.content)
    for write in commit.entries:
        size += entry_bytes(write.entry)
    return size


Beat = tuple[str, str, str, str]
"""Tenant, run and execution of a lease, and a token."""

_WORKER = ("tenant_id", "worker_id", "instance_id")

NO_SESSION = Session()
_PRESENCE = ("expires_us", "body")
_put_workers = Insert(schema.workers, (*_WORKER, *_PRESENCE), key=_WORKER, replaced=_PRESENCE)
_drop_workers = Delete(schema.workers, _WORKER)
_over = schema.tombstones.c.expires_us <= bindparam("now_us")
_deleted = delete(schema.commits).where(
    schema.commits.c.run_key.in_(select(schema.tombstones.c.run_key).where(_over)),
    schema.commits.c.version < literal_column("0"),
)
_sweeps = [
    Query(delete(schema.workers).where(schema.workers.c.expires_us <= bindparam("now_us"))),
    Query(_deleted),
    Query(delete(schema.tombstones).where(_over)),
]


def apply_others(connection: Link, works: Sequence[Work], clock: Clock) -> list[Any]:
    """Do everything but commits and heartbeats in one transaction, and answer each in its place.

    These works may be done in any order. Those of a kind go together, so that each kind takes a few
    statements.
    """
    now_us = clock(connection)
    answers: dict[int, Any] = {}
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
    """Return the lease that a heartbeat is for, and the token that it shows."""
    return (renewal.tenant_id, renewal.run_id, renewal.execution_id, renewal.token)


def merged(renewals: Sequence[Renewal]) -> dict[Beat, Renewal]:
    """Return one heartbeat for each lease: the last one, completed by data of earlier ones."""
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


def put_presence(connection: Link, works: Sequence[PresenceWork], now_us: int) -> None:
    """Remember workers for a while, or forget them at once."""
    rows: dict[tuple[str, str, str], Values | None] = {}
    for work in works:
        expires_us = now_us + work.ttl_ms * 1_000
        for presence in work.presences:
            key = (presence.tenant_id, presence.worker_id, presence.instance_id)
            rows[key] = (*key, expires_us, to_json(presence)) if work.ttl_ms > 0 else None
    # In the order of their keys, because replicas may report the same workers at once.
    _drop_workers.run(connection, sorted(key for key, row in rows.items() if row is None))
    _put_workers.run(connection, [row for _, row in sorted(rows.items()) if row is not None])


def sweep(connection: Link, now_us: int) -> None:
    """Remove expired rows that would otherwise stay."""
    for query in _sweeps:
        query.run(connection, now_us=now_us)
