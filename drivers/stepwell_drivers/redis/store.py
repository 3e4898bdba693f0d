"""The Store port over Redis: each method calls the part that implements it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from stepwell.core.port import (
    Claim,
    Claimed,
    Commit,
    CommitResult,
    EventPage,
    Hint,
    JournalAck,
    JournalWrite,
    KeySwap,
    Loaded,
    LogsOfExecution,
    OldLogs,
    Page,
    Presence,
    Query,
    Renewal,
    Reservation,
    StoredPayload,
    StoreInfo,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.model import LogEntry, Plan, Question, Run
from stepwell.core.records.states import Verdict
from stepwell_drivers.hints import newest
from stepwell_drivers.redis.claims import Claims
from stepwell_drivers.redis.commits import Commits
from stepwell_drivers.redis.deletions import Deletions
from stepwell_drivers.redis.hints import RedisHints
from stepwell_drivers.redis.journals import Journals
from stepwell_drivers.redis.logs import Logs
from stepwell_drivers.redis.opening import Opened
from stepwell_drivers.redis.pages import Pages
from stepwell_drivers.redis.presence import PresenceRows
from stepwell_drivers.redis.reads import Reads
from stepwell_drivers.redis.reservations import Reservations
from stepwell_drivers.redis.search import Search

R = TypeVar("R")


class RedisStore:
    """An open store in Redis, Valkey or a cluster of them. Many may be open at once."""

    def __init__(self, opened: Opened) -> None:
        base = opened.base
        self._base = base
        self._info = opened.info
        self._network = base.network
        self._commits = Commits(base)
        self._claims = Claims(base)
        self._reads = Reads(base)
        self._search = Search(base)
        self._reservations = Reservations(base)
        self._deletions = Deletions(base, self._reservations)
        self._presence = PresenceRows(base)
        self._logs = Logs(base)
        self._journals = Journals(base)
        self._pages = Pages(base, self._search, self._presence, self._logs, self._journals)
        self._hints = RedisHints(base)

    async def begin(self) -> None:
        """Continue after earlier commits, and finish interrupted deletions."""
        self._base.raise_floor(max(await self._base.stamps()))
        await self._deletions.finish_all()

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self._network.check_open()
        results = await self._commits.commit(commits)
        changes = [
            (commit.tenant_id, commit.run_id, commit.version)
            for commit, result in zip(commits, results, strict=True)
            if result.verdict is Verdict.COMMITTED
        ]
        self._hints.publish(newest(changes), listeners=self._commits.listeners)
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        return await self._commits.renew(renewals)

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        return await self._journals.write(writes)

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        self._network.check_open()
        await self._presence.put_presence(presences, ttl_ms)

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        if await self._logs.append(tenant_id, run_id, entries) and entries:
            self._hints.publish({(tenant_id, run_id): 0})

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        deleted = await self._deletions.delete(tenant_id, run_id, version)
        if deleted:
            self._hints.publish({(tenant_id, run_id): 0})
        return deleted

    async def remove_logs(self, which: LogsOfExecution | OldLogs) -> int:
        if isinstance(which, OldLogs):
            return await self._logs.purge(which)
        return await self._logs.trim(which)

    async def swap_keys(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        self._network.check_open()
        return await self._reservations.swap(tenant_id, pipeline_id, swaps)

    async def claim(self, claim: Claim) -> Claimed:
        return await self._claims.claim(claim)

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        return await self._reads.get_run(tenant_id, run_id)

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        return await self._reads.load(tenant_id, run_id, since)

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool = False
    ) -> Sequence[StoredPayload]:
        self._network.check_open()
        return await self._reads.read_payloads(tenant_id, run_id, keys, texts=texts)

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        return await self._reads.read_plan(tenant_id, run_id, revision)

    async def read_base(self, tenant_id: str, run_id: str, *, version: int) -> Checkpoint | None:
        return await self._reads.read_base(tenant_id, run_id, version)

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        return await self._reads.read_events(tenant_id, run_id, after, limit)

    async def page(self, query: Query[R]) -> Page[R]:
        return await self._pages.page(query)

    async def read_questions(
        self, tenant_id: str, run_id: str, question_ids: Sequence[str]
    ) -> Sequence[Question]:
        self._network.check_open()
        return await self._reads.read_questions(tenant_id, run_id, question_ids)

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._hints.subscribe(hint)

    async def describe(self) -> StoreInfo:
        self._network.check_open()
        return self._info

    async def close(self) -> None:
        if self._network.closed:
            return
        await self._hints.close()
        await self._network.close()
