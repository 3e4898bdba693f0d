"""Reads the last heartbeat's progress and session of expired leases, for the next attempt.

A heartbeat changes no version, so no replica has its progress in memory. It is read from the
lease's row, once for each run whose leases end, before that end is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.occurrences import LeaseExpired
from stepwell.core.port import Due, OpenExecution, Store
from stepwell.core.records.states import DueKind

RECENT_COMMITS = 100
"""Most expired leases were granted within this many commits, so these rows are read first."""


class EndedLease(NamedTuple):
    """An ended lease: the occurrence that ends it, and its holder."""

    occurrence: LeaseExpired
    worker_id: str = ""
    instance_id: str = ""


async def with_last_heartbeats(
    store: Store, tenant_id: str, run_id: str, expired: Sequence[LeaseExpired], *, version: int = 0
) -> list[EndedLease]:
    """Return these occurrences with the progress and session of each lease's last heartbeat.

    `version` is one that the run has reached, so that few rows are read; 0: unknown.

    Raises:
        StoreUnavailable: nothing could be read; the leases have ended nevertheless.
    """
    if not version:
        run = await store.get_run(tenant_id, run_id)
        version = run.version if run is not None else 0
    rows: dict[str, OpenExecution] = {}
    # Most expired leases were granted a few commits ago; otherwise all rows are read.
    for since in (max(0, version - RECENT_COMMITS), 0):
        loaded = await store.load(tenant_id, run_id, since=since)
        rows = {row.execution.execution_id: row for row in loaded.executions} if loaded else {}
        if loaded is None or loaded.complete or all(one.execution_id in rows for one in expired):
            break
    return [_with_heartbeat(one, rows.get(one.execution_id)) for one in expired]


async def expired_of(
    store: Store, tenant_id: str, run_id: str, leases: Sequence[Due]
) -> list[EndedLease]:
    """Return the occurrences that end these leases of a run, with each lease's last heartbeat.

    Raises:
        StoreUnavailable: nothing could be read; the leases have ended nevertheless.
    """
    expired = [
        LeaseExpired(
            execution_id=one.name,
            token=one.token,
            timed_out=one.kind is DueKind.ATTEMPT_TIMED_OUT,
        )
        for one in leases
    ]
    version = max(one.version for one in leases)
    return await with_last_heartbeats(store, tenant_id, run_id, expired, version=version)


def _with_heartbeat(one: LeaseExpired, row: OpenExecution | None) -> EndedLease:
    if row is None or row.token != one.token:
        return EndedLease(one)
    occurrence = replace(one, progress=row.progress, session=row.session)
    return EndedLease(occurrence, row.worker_id, row.instance_id)
