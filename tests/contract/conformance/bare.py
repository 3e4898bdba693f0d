"""A store without optional groups: each of their methods does what `groups.py` says of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from msgspec.structs import replace

from stepwell.core.port import (
    EndedQuery,
    EndedRun,
    FeedPage,
    FoundResult,
    Hint,
    LogPage,
    Presence,
    RunPage,
    RunQuery,
    Store,
)
from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.model import LogEntry
from stepwell.core.records.states import LogKind


class _Bare:
    def __init__(self, inner: Store, left_out: Collection[str]) -> None:
        self._inner = inner
        self._left_out = left_out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _needs(self, group: str) -> None:
        if group in self._left_out:
            # A closed store is unavailable, whatever it leaves out.
            await self._inner.describe()
            raise StoreRefused(f"this store leaves out {group}")

    async def list_runs(self, query: RunQuery) -> RunPage:
        plain = RunQuery(tenant_id=query.tenant_id)
        if replace(query, cursor="", limit=plain.limit) != plain:
            await self._needs("filters")
        return await self._inner.list_runs(query)

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        await self._needs("delete")
        return await self._inner.delete_run(tenant_id, run_id, version=version)

    async def feed(self, **asked: Any) -> FeedPage:
        await self._needs("feed")
        return await self._inner.feed(**asked)

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        await self._needs("logs")
        await self._inner.append_logs(tenant_id, run_id, entries)

    async def read_logs(self, tenant_id: str, run_id: str, **asked: Any) -> LogPage:
        await self._needs("logs")
        return await self._inner.read_logs(tenant_id, run_id, **asked)

    async def trim_logs(
        self, tenant_id: str, run_id: str, *, execution_id: str, kind: LogKind
    ) -> None:
        if "logs" not in self._left_out:
            await self._inner.trim_logs(tenant_id, run_id, execution_id=execution_id, kind=kind)
        await self._inner.describe()

    async def purge_logs(self, *, older_ms: int, limit: int) -> int:
        await self._inner.describe()
        if "logs" in self._left_out:
            return 0
        return await self._inner.purge_logs(older_ms=older_ms, limit=limit)

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        found = await self._inner.find_keyed(tenant_id, pipeline_id, keys)
        return found if "keyed" not in self._left_out else ()

    async def list_ended(self, query: EndedQuery) -> Sequence[EndedRun]:
        await self._needs("retention")
        return await self._inner.list_ended(query)

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        if "presence" not in self._left_out:
            await self._inner.put_presence(presences, ttl_ms=ttl_ms)
        await self._inner.describe()

    async def list_presence(self, tenant_id: str) -> Sequence[Presence]:
        found = await self._inner.list_presence(tenant_id)
        return found if "presence" not in self._left_out else ()

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._inner.subscribe(hint) if "hints" not in self._left_out else lambda: None


def bare(inner: Store, left_out: Collection[str]) -> Store:
    """Return the same store without these optional groups."""
    return cast("Store", _Bare(inner, left_out))
