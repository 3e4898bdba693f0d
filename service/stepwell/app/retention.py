"""What is over is removed in time: ended runs, each as a whole, and logs, which are kept for less long.

Every replica sweeps. Two that find the same run do no harm: it is removed at the version at which it was
found, so one that was resumed meanwhile stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from stepwell.core.port import EndedQuery, EndedRun, Runtime, Store
from stepwell.core.records.errors import StoreError
from stepwell.core.records.states import RunStatus

log = structlog.get_logger(__name__)

RUNS_AT_ONCE = 100
LOGS_AT_ONCE = 5_000
JITTER = 0.2
"""The part of each pause that is drawn at random, so that replicas don't sweep in step."""


class Retention(NamedTuple):
    """For how long what is over is kept, in milliseconds; 0: for ever."""

    succeeded_ms: int = 0
    failed_ms: int = 0
    cancelled_ms: int = 0
    logs_ms: int = 0
    sweep_ms: int = 60_000


class Sweeper:
    """Removes what is over, again and again."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        retention: Retention,
        forget: Callable[[str, str], None],
    ) -> None:
        """`forget(tenant_id, run_id)` is called for each run that was removed."""
        self._store = store
        self._runtime = runtime
        self._retention = retention
        self._forget = forget
        self.removed: Counter[str] = Counter()
        """Since the start: `runs` and `log_entries`."""

    async def run(self) -> None:
        """Sweep until cancelled. A store in trouble is left alone until the next time."""
        while True:
            pause_ms = self._retention.sweep_ms * (1 + JITTER * self._runtime.random())
            await self._runtime.sleep(pause_ms / 1_000)
            try:
                await self.sweep()
            except StoreError as error:
                log.warning("a sweep was cut short", error=error.message)

    async def sweep(self) -> None:
        """Remove all that is over now."""
        keep = self._retention
        for status, older_ms in (
            (RunStatus.SUCCEEDED, keep.succeeded_ms),
            (RunStatus.FAILED, keep.failed_ms),
            (RunStatus.CANCELLED, keep.cancelled_ms),
        ):
            if older_ms:
                await self._remove_runs(
                    EndedQuery(statuses=(status,), older_ms=older_ms, limit=RUNS_AT_ONCE)
                )
        if keep.logs_ms:
            removed = LOGS_AT_ONCE
            while removed >= LOGS_AT_ONCE:
                removed = await self._store.purge_logs(older_ms=keep.logs_ms, limit=LOGS_AT_ONCE)
                self.removed["log_entries"] += removed

    async def _remove_runs(self, query: EndedQuery) -> None:
        while True:
            found = await self._store.list_ended(query)
            removed = await remove(self._store, found, self._forget)
            self.removed["runs"] += len(removed)
            # Nothing removed: what was found goes on again, or is another replica's by now.
            if len(found) < query.limit or not removed:
                return


async def remove(
    store: Store, found: Sequence[EndedRun], forget: Callable[[str, str], None]
) -> list[EndedRun]:
    """Remove ended runs, each unless it was resumed since it was found; return those removed."""
    removed: list[EndedRun] = []
    for one in found:
        if await store.delete_run(one.tenant_id, one.run_id, version=one.version):
            forget(one.tenant_id, one.run_id)
            removed.append(one)
    return removed
