"""Removes old data: ended runs, each completely, and logs, which are kept for a shorter time.

Every replica sweeps. Two replicas may list the same run: it is removed only at the version at which
it was listed, so a run that was resumed meanwhile stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.port import EndedQuery, EndedRun, OldLogs, Runtime, Store
from stepwell.core.records.errors import StoreError
from stepwell.core.records.states import RunStatus
from stepwell.logger import get_logger

log = get_logger(__name__)

RUNS_AT_ONCE = 100
LOGS_AT_ONCE = 5_000
JITTER = 0.2
"""The random part of each pause, so that replicas don't sweep at the same time."""

Forget = Callable[[str, str], None]
"""Called with tenant and id of each removed run."""


class Retention(NamedTuple):
    """The time for which ended runs and logs are kept, in milliseconds; 0: without limit."""

    succeeded_ms: int = 0
    failed_ms: int = 0
    cancelled_ms: int = 0
    logs_ms: int = 0
    sweep_ms: int = 60_000


class Sweeper:
    """Removes old data, repeatedly."""

    def __init__(
        self, store: Store, runtime: Runtime, retention: Retention, forget: Forget
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._retention = retention
        self._forget = forget
        self.removed: Counter[str] = Counter()
        """Counts since the start: `runs` and `log_entries`."""

    async def run(self) -> None:
        """Sweep until cancelled. After a store's error, wait for the next time."""
        while True:
            pause_ms = self._retention.sweep_ms * (1 + JITTER * self._runtime.random())
            await self._runtime.sleep(pause_ms / 1_000)
            try:
                await self.sweep()
            except StoreError as error:
                log.warning("a sweep was cut short", error=error.message)

    async def sweep(self) -> None:
        """Remove everything that is too old now."""
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
                removed = await self._store.remove_logs(
                    OldLogs(older_ms=keep.logs_ms, limit=LOGS_AT_ONCE)
                )
                self.removed["log_entries"] += removed

    async def _remove_runs(self, query: EndedQuery) -> None:
        while True:
            ended = (await self._store.page(query)).items
            removed = await _remove(self._store, ended, self._forget)
            self.removed["runs"] += len(removed)
            # Nothing was removed: the runs were resumed, or another replica has removed them.
            if len(ended) < query.limit or not removed:
                return


class Purge(NamedTuple):
    """The runs that a purge removed, or would remove."""

    runs: Sequence[EndedRun]
    complete: bool
    """False if there are more, or one of them could not be removed."""


async def purge(store: Store, query: EndedQuery, forget: Forget, *, rehearse: bool) -> Purge:
    """Remove up to `query.limit` ended runs, or only list them in a rehearsal."""
    # A run beyond the limit shows that there are more.
    ended = list((await store.page(replace(query, limit=query.limit + 1))).items)
    complete, ended = len(ended) <= query.limit, ended[: query.limit]
    if rehearse:
        return Purge(ended, complete)
    removed = await _remove(store, ended, forget)
    return Purge(removed, complete and len(removed) == len(ended))


async def _remove(store: Store, ended: Sequence[EndedRun], forget: Forget) -> list[EndedRun]:
    """Remove ended runs, except those resumed since they were listed; return the removed ones."""
    removed: list[EndedRun] = []
    for one in ended:
        if await store.delete_run(one.tenant_id, one.run_id, version=one.version):
            forget(one.tenant_id, one.run_id)
            removed.append(one)
    return removed
