"""Whole lists of a store, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import Store
from stepwell.core.records.events import Event


async def every(store: Store, query: Any) -> list[Any]:
    """Return all rows that a query finds."""
    rows: list[Any] = []
    while True:
        page = await store.page(query)
        rows += page.items
        # The feed's cursor never ends.
        if not page.cursor or not page.items:
            return rows
        query = replace(query, cursor=page.cursor)


async def events_of(store: Store, tenant_id: str, run_id: str) -> Sequence[Event]:
    """Return all events of a run that must be there, and has few."""
    page = await store.read_events(tenant_id, run_id, after=0, limit=1_000)
    assert page is not None
    return page.events
