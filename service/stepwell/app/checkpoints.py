"""Checkpoints, listed by the events that give them their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.port import CheckpointQuery, Store
from stepwell.core.records.checkpoints import Checkpoint, NamedEvent


class Named(NamedTuple):
    """An event that gives its commit a name, and the commit's checkpoint."""

    event: NamedEvent
    checkpoint: Checkpoint


async def read_checkpoints(
    store: Store, tenant_id: str, run_id: str, cursor: str, limit: int
) -> tuple[Sequence[Named], str]:
    """Return a page of a run's named events, and the cursor behind it; empty: it was the last.

    A commit may have several, so a cursor says how many of a checkpoint's have been returned, and where in the
    store's list the checkpoint stands.
    """
    returned, _, place = cursor.partition(" ")
    skip = int(returned or "0")
    # One more than asked for: of the first, all but one may have been returned.
    query = CheckpointQuery(tenant_id=tenant_id, run_id=run_id, cursor=place, limit=limit + 1)
    page = await store.page(query)
    named = [Named(event, one) for one in page.items for event in one.state.events]
    named = named[skip : skip + limit]
    left, whole = skip + len(named), 0
    for one in page.items:
        if left < len(one.state.events):
            break
        left, whole = left - len(one.state.events), whole + 1
    if whole == len(page.items):
        return named, f"0 {page.cursor}" if page.cursor else ""
    if whole:
        # The cursor behind a shorter page is only known to the store.
        place = (await store.page(replace(query, limit=whole))).cursor
    return named, f"{left} {place}"
