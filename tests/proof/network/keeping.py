"""What a store has when all is over, read out past everything that failed."""

from __future__ import annotations

import asyncio

from stepwell.core.events import Event
from stepwell.core.ports import Store
from stepwell.testing.simulator.violation import holds
from tests.proof.network.clients import TENANT, view_of
from tests.proof.network.history import Kept

REST_S = 0.2
"""Two readings so far apart that are equal are the end."""


async def kept_by(store: Store, names: set[str]) -> dict[str, Kept]:
    """Return what the store has of these runs."""
    return {name: await _kept(store, name) for name in sorted(names)}


async def at_rest(store: Store, names: set[str]) -> dict[str, Kept]:
    """Return what the store has of these runs when nothing more is added.

    A server may still be doing what a client has given up waiting for.
    """
    kept = await kept_by(store, names)
    while True:
        before = kept
        await asyncio.sleep(REST_S)
        kept = await kept_by(store, names)
        if kept == before:
            return kept


async def _kept(store: Store, name: str) -> Kept:
    loaded = await store.load(TENANT, name)
    if loaded is None:
        return Kept(0, (), {}, {})
    events: list[Event] = []
    while len(events) < loaded.run.last_event:
        page = await store.read_events(TENANT, name, after=len(events), limit=1_000)
        assert page is not None
        holds(page.events, "E1", f"{name} has {len(events)} of {loaded.run.last_event} events")
        events += page.events
    ids: list[str] = []
    cursor = ""
    while True:
        rows = await store.list_executions(TENANT, name, cursor=cursor, limit=1_000)
        ids += [one.execution_id for one in rows.executions]
        cursor = rows.cursor
        if not cursor:
            break
    results: dict[str, bytes] = {}
    for at in range(0, len(ids), 100):
        payloads = await store.read_payloads(TENANT, name, ids[at : at + 100])
        results.update({one.key: one.payload.data for one in payloads})
    return Kept(loaded.run.version, tuple(events), view_of(loaded).open, results)
