"""Removes old data: ended runs, each completely, and logs, which are kept for a shorter time.

A run is removed after its forks, which refer to its results: it stays as long as one of them does.

Every replica sweeps. Two replicas may list the same run: it is removed only at the version at which
it was listed, so a run that was resumed meanwhile stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.app.runs import free_children
from stepwell.core.port import (
    EndedQuery,
    EndedRun,
    Loaded,
    OldLogs,
    RunQuery,
    Runtime,
    Store,
    every_row,
)
from stepwell.core.records.errors import StoreError
from stepwell.core.records.model import Run
from stepwell.core.records.states import RunStatus
from stepwell.engine.executor import Executor
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

    def __init__(self, executor: Executor, runtime: Runtime, retention: Retention) -> None:
        self._executor = executor
        self._store = executor.store
        self._runtime = runtime
        self._retention = retention
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
            removed = await _remove(self._executor, ended, self._executor.forget)
            self.removed["runs"] += len(removed)
            # Nothing was removed: there is none, or the runs were resumed or removed by others.
            if not removed:
                return


class Purge(NamedTuple):
    """The runs that a purge removed, or would remove."""

    run_ids: Sequence[str]
    complete: bool
    """False if there are more, or one of them could not be removed."""


async def purge(executor: Executor, query: EndedQuery, forget: Forget, *, rehearse: bool) -> Purge:
    """Remove up to `query.limit` ended runs of a tenant, or only list them in a rehearsal."""
    store = executor.store
    if rehearse:
        names = await _foretold(store, query)
        return Purge(names[: query.limit], len(names) <= query.limit)
    removed: list[str] = []
    while room := query.limit - len(removed):
        gone = await _remove(executor, (await store.page(replace(query, limit=room))).items, forget)
        if not gone:
            break
        removed += [one.run_id for one in gone]
    return Purge(removed, not (await store.page(replace(query, limit=1))).items)


async def _foretold(store: Store, query: EndedQuery) -> list[str]:
    """Return the runs that a purge would remove, in its order; more than its limit if there are more."""
    names = [one.run_id for one in (await store.page(replace(query, limit=query.limit + 1))).items]
    for name in names:  # It grows by the runs whose forks are all in it.
        if len(names) > query.limit:
            break
        fork = await store.get_run(query.tenant_id, name)
        parent_id = fork.spec.parent_run_id if fork is not None else ""
        parent = await store.load(query.tenant_id, parent_id) if parent_id else None
        if parent is None or parent_id in names or not _matches(parent, query):
            continue
        if await _forks_of(store, parent.run) <= set(names):
            names.append(parent_id)
    return names


def _matches(loaded: Loaded, query: EndedQuery) -> bool:
    run = loaded.run
    return (
        run.status in query.statuses
        and run.ended_us <= loaded.now_us - query.older_ms * 1_000
        and query.pipeline_id in ("", run.spec.pipeline_id)
    )


async def _forks_of(store: Store, run: Run) -> set[str]:
    query = RunQuery(tenant_id=run.spec.tenant_id, parent_run_id=run.spec.run_id)
    return {fork.spec.run_id async for fork in every_row(store, query)}


async def _remove(executor: Executor, ended: Sequence[EndedRun], forget: Forget) -> list[EndedRun]:
    """Remove ended runs, except those resumed since they were listed; return the removed ones.

    A run with letters that aren't delivered stays: its parent or its children are still to know of its end.
    """
    removed: list[EndedRun] = []
    for one in ended:
        run = await executor.store.get_run(one.tenant_id, one.run_id)
        if run is None or run.version != one.version or run.letters.first < run.letters.next:
            continue
        await free_children(executor, run)
        if await executor.store.delete_run(one.tenant_id, one.run_id, version=one.version):
            forget(one.tenant_id, one.run_id)
            removed.append(one)
    return removed
