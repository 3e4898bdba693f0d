"""A store without optional groups: each of their methods does what `groups.py` says of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from msgspec.structs import replace

from stepwell.core.port import (
    EndedQuery,
    FeedQuery,
    FoundResult,
    Hint,
    LogQuery,
    LogsOfExecution,
    OldLogs,
    Page,
    Presence,
    PresenceQuery,
    Query,
    RunQuery,
    Store,
)
from stepwell.core.records.errors import StoreRefused
from stepwell.core.records.model import LogEntry

_GROUP_OF: dict[type[Any], str] = {FeedQuery: "feed", LogQuery: "logs", EndedQuery: "retention"}
"""Pages that a store without the group refuses."""


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

    async def page(self, query: Query[Any]) -> Page[Any]:
        if isinstance(query, RunQuery):
            plain = RunQuery(tenant_id=query.tenant_id)
            if replace(query, cursor="", limit=plain.limit) != plain:
                await self._needs("filters")
        elif type(query) in _GROUP_OF:
            await self._needs(_GROUP_OF[type(query)])
        page = await self._inner.page(query)
        nobody = isinstance(query, PresenceQuery) and "presence" in self._left_out
        return Page() if nobody else page

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        await self._needs("delete")
        return await self._inner.delete_run(tenant_id, run_id, version=version)

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        await self._needs("logs")
        await self._inner.append_logs(tenant_id, run_id, entries)

    async def remove_logs(self, which: LogsOfExecution | OldLogs) -> int:
        await self._inner.describe()
        return 0 if "logs" in self._left_out else await self._inner.remove_logs(which)

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        found = await self._inner.find_keyed(tenant_id, pipeline_id, keys)
        return found if "keyed" not in self._left_out else ()

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        if "presence" not in self._left_out:
            await self._inner.put_presence(presences, ttl_ms=ttl_ms)
        await self._inner.describe()

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._inner.subscribe(hint) if "hints" not in self._left_out else lambda: None


def bare(inner: Store, left_out: Collection[str]) -> Store:
    """Return the same store without these optional groups."""
    return cast("Store", _Bare(inner, left_out))
