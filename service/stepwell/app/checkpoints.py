"""Checkpoints, listed by the events that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.port import CheckpointQuery, Store
from stepwell.core.records.checkpoints import Checkpoint, NamedEvent


class Named(NamedTuple):
    """A naming event, and its commit's checkpoint."""

    event: NamedEvent
    checkpoint: Checkpoint


async def read_checkpoints(
    store: Store, tenant_id: str, run_id: str, cursor: str, limit: int
) -> tuple[Sequence[Named], str]:
    """Return a page of a run's naming events, and the next cursor ("" after the last page).

    A commit may have several, so a cursor has the number of a checkpoint's events that were
    returned, and the checkpoint's place in the store's list.
    """
    returned, _, place = cursor.partition(" ")
    skip = int(returned or "0")
    # One more than requested, because all events but one of the first checkpoint may have been
    # returned.
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
        # Only the store knows the cursor after a shorter page.
        place = (await store.page(replace(query, limit=whole))).cursor
    return named, f"{left} {place}"
