"""The last words of a lease that is over: what its heartbeats brought goes to the next attempt.

A heartbeat changes no version, so no replica holds what it brought: it is read from the lease's row, once
for each run whose leases end, before the end is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.loop.signals import LeaseExpired
from stepwell.core.port import Due, OpenExecution, Store
from stepwell.core.records.states import DueKind

RECENT_COMMITS = 100


async def with_last_words(
    store: Store, tenant_id: str, run_id: str, expired: Sequence[LeaseExpired], *, version: int = 0
) -> list[LeaseExpired]:
    """Return the ends of these leases with the last progress and session that came by heartbeat.

    `version`: one that the run is known to have reached, so that little is read; 0: not known.

    Raises:
        StoreUnavailable: nothing could be read; the leases are still over.
    """
    if not version:
        run = await store.get_run(tenant_id, run_id)
        version = run.version if run is not None else 0
    rows: dict[str, OpenExecution] = {}
    # A lease that is over was most often taken a few commits ago; else all rows are read.
    for since in (max(0, version - RECENT_COMMITS), 0):
        loaded = await store.load(tenant_id, run_id, since=since)
        rows = {row.execution.execution_id: row for row in loaded.executions} if loaded else {}
        if loaded is None or loaded.complete or all(one.execution_id in rows for one in expired):
            break
    return [_with_its_own(one, rows.get(one.execution_id)) for one in expired]


async def expired_of(
    store: Store, tenant_id: str, run_id: str, leases: Sequence[Due]
) -> list[LeaseExpired]:
    """Return what the end of these leases of a run is to the loop, with their last words.

    Raises:
        StoreUnavailable: nothing could be read; the leases are still over.
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
    return await with_last_words(store, tenant_id, run_id, expired, version=version)


def _with_its_own(one: LeaseExpired, row: OpenExecution | None) -> LeaseExpired:
    if row is None or row.token != one.token:
        return one
    return replace(one, progress=row.progress, session=row.session)
