"""The Store port over one SQLite file: writes go to the writer, reads to the readers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from stepwell.core.errors import StoreUnavailable
from stepwell.core.model import LogEntry, Outcome, Plan, Run
from stepwell.core.ports import (
    Claimed,
    ClaimRequest,
    Commit,
    CommitResult,
    EventPage,
    ExecutionPage,
    FeedPage,
    Hint,
    Loaded,
    LogPage,
    MessagePage,
    Presence,
    Renewal,
    RunPage,
    RunQuery,
    Runtime,
    StoredPayload,
    StoreInfo,
    TaskPage,
    WorkerLease,
)
from stepwell_drivers.clock import StoreClock
from stepwell_drivers.hints import Hints, RunKey, newest
from stepwell_drivers.sql import claims, pages, reads
from stepwell_drivers.sql.sqlite.readers import Readers
from stepwell_drivers.sql.sqlite.writer import Writer
from stepwell_drivers.sql.writes import (
    CommitWork,
    DeleteWork,
    LogWork,
    PresenceWork,
    RenewWork,
    Work,
)

P = ParamSpec("P")
T = TypeVar("T")


def changed_by(works: Sequence[Work]) -> dict[RunKey, int]:
    """Return the runs that these writes changed, as hints tell of them."""
    changes: list[tuple[str, str, int]] = []
    for work in works:
        if isinstance(work, CommitWork):
            changes += [(one.tenant_id, one.run_id, one.version) for one in work.commits]
        elif isinstance(work, LogWork | DeleteWork):
            changes.append((work.tenant_id, work.run_id, 0))
    return newest(changes)


class SqlStore:
    """One open store. Its file is this process's until it is closed."""

    def __init__(
        self,
        *,
        writer: Writer,
        readers: Readers,
        hints: Hints,
        clock: StoreClock,
        runtime: Runtime,
        info: StoreInfo,
        release: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._hints = hints
        self._clock = clock
        self._runtime = runtime
        self._info = info
        self._release = release
        self._holds = claims.Holds()
        self._claiming = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        self._pid = os.getpid()

    def _check(self) -> None:
        if self._closing is not None:
            raise StoreUnavailable("this store was closed")
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                f"this store belongs to process {self._pid}; a fork can't use its connections:"
                " open stores after forking"
            )

    async def _read(
        self,
        read: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._check()
        return await self._readers.run(read, *args, **kwargs)

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self._check()
        results: Sequence[CommitResult] = await self._writer.do(CommitWork(tuple(commits)))
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        self._check()
        answers: Sequence[bool] = await self._writer.do(RenewWork(tuple(renewals)))
        return answers

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        self._check()
        await self._writer.do(PresenceWork(tuple(presences), ttl_ms))

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        self._check()
        await self._writer.do(LogWork(tenant_id, run_id, tuple(entries)))

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        self._check()
        return bool(await self._writer.do(DeleteWork(tenant_id, run_id, version)))

    async def claim(self, request: ClaimRequest) -> Claimed:
        async with self._claiming:
            now_us = self._clock.now_us()
            return await self._read(claims.claim, request, self._holds, now_us)

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        return await self._read(reads.get_run, tenant_id, run_id)

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        return await self._read(reads.load, tenant_id, run_id, since, self._clock.now_us())

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> Sequence[StoredPayload]:
        return await self._read(reads.read_payloads, tenant_id, run_id, keys)

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        return await self._read(reads.read_outcomes, tenant_id, run_id, execution_ids)

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        return await self._read(reads.read_plan, tenant_id, run_id, revision)

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        return await self._read(reads.read_events, tenant_id, run_id, after, limit)

    async def list_runs(self, query: RunQuery) -> RunPage:
        return await self._read(pages.list_runs, query)

    async def list_tasks(
        self, tenant_id: str, run_id: str, *, cursor: str = "", limit: int = 100
    ) -> TaskPage:
        return await self._read(pages.list_tasks, tenant_id, run_id, cursor, limit)

    async def list_executions(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> ExecutionPage:
        run = (tenant_id, run_id)
        return await self._read(pages.list_executions, run, task_id, cursor, limit)

    async def read_messages(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> MessagePage:
        run = (tenant_id, run_id)
        return await self._read(pages.read_messages, run, task_id, cursor, limit)

    async def read_logs(
        self,
        tenant_id: str,
        run_id: str,
        *,
        execution_id: str = "",
        cursor: str = "",
        limit: int = 100,
    ) -> LogPage:
        run = (tenant_id, run_id)
        return await self._read(pages.read_logs, run, execution_id, cursor, limit)

    async def list_presence(self, tenant_id: str) -> Sequence[Presence]:
        return await self._read(pages.list_presence, tenant_id, self._clock.now_us())

    async def list_leases(self, tenant_id: str, worker_id: str) -> Sequence[WorkerLease]:
        return await self._read(reads.list_leases, tenant_id, worker_id)

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> FeedPage:
        return await self._read(pages.feed, self._info.store_id, tenant_id, cursor, limit)

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._hints.subscribe(hint)

    async def describe(self) -> StoreInfo:
        self._check()
        return self._info

    async def close(self) -> None:
        if os.getpid() != self._pid:
            return
        if self._closing is None:
            # A task of its own: who waits for it may be cancelled, and the lock must outlive the thread.
            self._closing = self._runtime.spawn(self._shut(), name="close the store")
        await asyncio.shield(self._closing)

    async def _shut(self) -> None:
        try:
            # Readers first: the last one to close is then the writer, which checkpoints.
            await asyncio.get_running_loop().run_in_executor(None, self._readers.close)
            await self._writer.close()
        finally:
            self._release()
