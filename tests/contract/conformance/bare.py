"""A store without any optional group: each of their methods does what `groups.py` says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import (
    EndedQuery,
    FeedQuery,
    Hint,
    JournalQuery,
    LogQuery,
    Page,
    PresenceQuery,
    RunQuery,
)
from stepwell.core.records.errors import StoreRefused
from stepwell_testkit.proxy import StoreProxy

ANSWERS = {"put_presence": None, "remove_logs": 0}
REFUSED = ("delete_run", "append_logs", "write_journal")


class BareStore(StoreProxy):
    """The mandatory part alone."""

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        query = args[0] if method == "page" else None
        if method in ANSWERS or method in REFUSED or _is_optional(query):
            # A closed store is unavailable, whatever it leaves out.
            await self.inner.describe()
            if method not in ANSWERS:
                raise StoreRefused(f"this store leaves out {method}")
            return ANSWERS[method]
        answer = await super().call(method, *args, **kwargs)
        return Page[Any]() if isinstance(query, PresenceQuery) else answer

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return lambda: None


def _is_optional(query: Any) -> bool:
    if isinstance(query, RunQuery):
        plain = RunQuery(tenant_id=query.tenant_id)
        return replace(query, cursor="", limit=plain.limit) != plain
    return isinstance(query, FeedQuery | LogQuery | JournalQuery | EndedQuery)
