"""The Store port over Redis: each method leads to the part that does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepwell.core.port import (
    Claimed,
    ClaimRequest,
    Commit,
    CommitResult,
    EndedQuery,
    EndedRun,
    EventPage,
    ExecutionPage,
    FeedPage,
    FoundResult,
    Hint,
    InputPage,
    InputQuery,
    Loaded,
    LogPage,
    MessagePage,
    Presence,
    Renewal,
    RunPage,
    RunQuery,
    StoredPayload,
    StoreInfo,
    TaskPage,
    WorkerLease,
)
from stepwell.core.records.model import InputRequest, LogEntry, Outcome, Plan, Run
from stepwell.core.records.states import LogKind, Verdict
from stepwell_drivers.hints import newest
from stepwell_drivers.redis.beside import Beside
from stepwell_drivers.redis.claims import Claims
from stepwell_drivers.redis.commits import Commits
from stepwell_drivers.redis.found import Found
from stepwell_drivers.redis.hints import RedisHints
from stepwell_drivers.redis.lists import Lists
from stepwell_drivers.redis.logs import Logs
from stepwell_drivers.redis.opening import Opened
from stepwell_drivers.redis.reads import Reads


class RedisStore:
    """A door to a store in Redis, Valkey or a cluster of them. Many may be open at once."""

    def __init__(self, opened: Opened) -> None:
        base = opened.base
        self._base = base
        self._info = opened.info
        self._network = base.network
        self._commits = Commits(base)
        self._claims = Claims(base)
        self._reads = Reads(base)
        self._lists = Lists(base)
        self._beside = Beside(base)
        self._found = Found(base)
        self._logs = Logs(base)
        self._hints = RedisHints(base)

    async def begin(self) -> None:
        """Go on from what was committed before, and finish deletions that were interrupted."""
        self._base.raise_floor(max(await self._base.stamps()))
        await self._commits.finish_all()

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self._network.check_open()
        results = await self._commits.commit(commits)
        changes = [
            (commit.tenant_id, commit.run_id, commit.version)
            for commit, result in zip(commits, results, strict=True)
            if result.verdict is Verdict.COMMITTED
        ]
        self._hints.publish(newest(changes))
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        return await self._commits.renew(renewals)

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        self._network.check_open()
        await self._beside.put_presence(presences, ttl_ms)

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        if await self._logs.append(tenant_id, run_id, entries) and entries:
            self._hints.publish({(tenant_id, run_id): 0})

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        deleted = await self._commits.delete(tenant_id, run_id, version)
        if deleted:
            self._hints.publish({(tenant_id, run_id): 0})
        return deleted

    async def trim_logs(
        self, tenant_id: str, run_id: str, *, execution_id: str, kind: LogKind
    ) -> None:
        await self._logs.trim(tenant_id, run_id, execution_id, kind)

    async def purge_logs(self, *, older_ms: int, limit: int) -> int:
        return await self._logs.purge(older_ms, limit)

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await self._claims.claim(request)

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        return await self._reads.get_run(tenant_id, run_id)

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        return await self._reads.load(tenant_id, run_id, since)

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> Sequence[StoredPayload]:
        self._network.check_open()
        return await self._reads.read_payloads(tenant_id, run_id, keys)

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        self._network.check_open()
        return await self._reads.read_outcomes(tenant_id, run_id, execution_ids)

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        return await self._reads.read_plan(tenant_id, run_id, revision)

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        return await self._reads.read_events(tenant_id, run_id, after, limit)

    async def list_runs(self, query: RunQuery) -> RunPage:
        return await self._lists.list_runs(query)

    async def list_inputs(self, query: InputQuery) -> InputPage:
        if query.run_id:
            return await self._reads.list_inputs(
                query.tenant_id, query.run_id, query.cursor, query.limit
            )
        return await self._found.open_inputs(query)

    async def read_inputs(
        self, tenant_id: str, run_id: str, input_ids: Sequence[str]
    ) -> Sequence[InputRequest]:
        self._network.check_open()
        return await self._reads.read_inputs(tenant_id, run_id, input_ids)

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        self._network.check_open()
        return await self._found.by_key(tenant_id, pipeline_id, keys)

    async def list_ended(self, query: EndedQuery) -> Sequence[EndedRun]:
        return await self._found.ended(query)

    async def list_tasks(
        self, tenant_id: str, run_id: str, *, cursor: str = "", limit: int = 100
    ) -> TaskPage:
        return await self._reads.list_tasks(tenant_id, run_id, cursor, limit)

    async def list_executions(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> ExecutionPage:
        return await self._reads.list_executions(tenant_id, run_id, task_id, cursor, limit)

    async def read_messages(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> MessagePage:
        return await self._reads.read_messages(tenant_id, run_id, task_id, cursor, limit)

    async def read_logs(
        self,
        tenant_id: str,
        run_id: str,
        *,
        execution_id: str = "",
        cursor: str = "",
        limit: int = 100,
    ) -> LogPage:
        return await self._logs.read(tenant_id, run_id, execution_id, cursor, limit)

    async def list_presence(self, tenant_id: str) -> Sequence[Presence]:
        return await self._beside.list_presence(tenant_id)

    async def list_leases(self, tenant_id: str, worker_id: str) -> Sequence[WorkerLease]:
        return await self._beside.list_leases(tenant_id, worker_id)

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> FeedPage:
        return await self._lists.feed(tenant_id, cursor, limit)

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
