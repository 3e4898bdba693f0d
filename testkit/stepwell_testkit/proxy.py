"""A store in front of a store: every call goes through one place, where a test may meddle with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

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
    Store,
    StoredPayload,
    StoreInfo,
    TaskPage,
    WorkerLease,
)
from stepwell.core.records.model import InputRequest, LogEntry, Outcome, Plan, Run
from stepwell.core.records.states import LogKind

T = TypeVar("T")


class StoreProxy:
    """The Store port over another store; `_call` is what a subclass overrides."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def _call(self, method: str, call: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002 - the name is for subclasses
        return await call()

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self._call("commit", lambda: self.inner.commit(commits))

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        return await self._call("renew", lambda: self.inner.renew(renewals))

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        await self._call("put_presence", lambda: self.inner.put_presence(presences, ttl_ms=ttl_ms))

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        await self._call("append_logs", lambda: self.inner.append_logs(tenant_id, run_id, entries))

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        return await self._call(
            "delete_run", lambda: self.inner.delete_run(tenant_id, run_id, version=version)
        )

    async def trim_logs(
        self, tenant_id: str, run_id: str, *, execution_id: str, kind: LogKind
    ) -> None:
        await self._call(
            "trim_logs",
            lambda: self.inner.trim_logs(tenant_id, run_id, execution_id=execution_id, kind=kind),
        )

    async def purge_logs(self, *, older_ms: int, limit: int) -> int:
        return await self._call(
            "purge_logs", lambda: self.inner.purge_logs(older_ms=older_ms, limit=limit)
        )

    async def claim(self, request: ClaimRequest) -> Claimed:
        return await self._call("claim", lambda: self.inner.claim(request))

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        return await self._call("get_run", lambda: self.inner.get_run(tenant_id, run_id))

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        return await self._call("load", lambda: self.inner.load(tenant_id, run_id, since=since))

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> Sequence[StoredPayload]:
        return await self._call(
            "read_payloads", lambda: self.inner.read_payloads(tenant_id, run_id, keys)
        )

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        return await self._call(
            "read_outcomes", lambda: self.inner.read_outcomes(tenant_id, run_id, execution_ids)
        )

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        return await self._call(
            "read_plan", lambda: self.inner.read_plan(tenant_id, run_id, revision)
        )

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        return await self._call(
            "read_events",
            lambda: self.inner.read_events(tenant_id, run_id, after=after, limit=limit),
        )

    async def list_runs(self, query: RunQuery) -> RunPage:
        return await self._call("list_runs", lambda: self.inner.list_runs(query))

    async def list_inputs(self, query: InputQuery) -> InputPage:
        return await self._call("list_inputs", lambda: self.inner.list_inputs(query))

    async def read_inputs(
        self, tenant_id: str, run_id: str, input_ids: Sequence[str]
    ) -> Sequence[InputRequest]:
        return await self._call(
            "read_inputs", lambda: self.inner.read_inputs(tenant_id, run_id, input_ids)
        )

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        return await self._call(
            "find_keyed", lambda: self.inner.find_keyed(tenant_id, pipeline_id, keys)
        )

    async def list_ended(self, query: EndedQuery) -> Sequence[EndedRun]:
        return await self._call("list_ended", lambda: self.inner.list_ended(query))

    async def list_tasks(
        self, tenant_id: str, run_id: str, *, cursor: str = "", limit: int = 100
    ) -> TaskPage:
        return await self._call(
            "list_tasks",
            lambda: self.inner.list_tasks(tenant_id, run_id, cursor=cursor, limit=limit),
        )

    async def list_executions(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> ExecutionPage:
        return await self._call(
            "list_executions",
            lambda: self.inner.list_executions(
                tenant_id, run_id, task_id=task_id, cursor=cursor, limit=limit
            ),
        )

    async def read_messages(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> MessagePage:
        return await self._call(
            "read_messages",
            lambda: self.inner.read_messages(
                tenant_id, run_id, task_id=task_id, cursor=cursor, limit=limit
            ),
        )

    async def read_logs(
        self,
        tenant_id: str,
        run_id: str,
        *,
        execution_id: str = "",
        cursor: str = "",
        limit: int = 100,
    ) -> LogPage:
        return await self._call(
            "read_logs",
            lambda: self.inner.read_logs(
                tenant_id, run_id, execution_id=execution_id, cursor=cursor, limit=limit
            ),
        )

    async def list_presence(self, tenant_id: str) -> Sequence[Presence]:
        return await self._call("list_presence", lambda: self.inner.list_presence(tenant_id))

    async def list_leases(self, tenant_id: str, worker_id: str) -> Sequence[WorkerLease]:
        return await self._call("list_leases", lambda: self.inner.list_leases(tenant_id, worker_id))

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> FeedPage:
        return await self._call(
            "feed", lambda: self.inner.feed(tenant_id=tenant_id, cursor=cursor, limit=limit)
        )

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self.inner.subscribe(hint)

    async def describe(self) -> StoreInfo:
        return await self._call("describe", self.inner.describe)

    async def close(self) -> None:
        await self.inner.close()
