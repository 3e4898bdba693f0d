"""Everything that a store has of a tenant, to be compared before and after what must change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    ExecutionQuery,
    FeedQuery,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    QuestionQuery,
    RunQuery,
    Store,
    TaskQuery,
)
from tests.simulation.simulator.reading import every

LIMIT = 500
OF_A_RUN: dict[str, Any] = {
    "tasks": TaskQuery,
    "executions": ExecutionQuery,
    "questions": QuestionQuery,
    "messages": MessageQuery,
    "log": LogQuery,
}


async def rows_of(
    store: Store, tenant_id: str, *, workers: Iterable[str] = (), gone: Iterable[str] = ()
) -> dict[str, object]:
    """Return all rows by what they are; `gone` names runs that are deleted, and must stay so."""
    found: dict[str, object] = {}
    runs = [
        run.spec.run_id for run in await every(store, RunQuery(tenant_id=tenant_id, limit=LIMIT))
    ]
    for run_id in [*runs, *gone]:
        found[run_id] = await _run(store, tenant_id, run_id)
    for worker in workers:
        query = LeaseQuery(tenant_id=tenant_id, worker_id=worker)
        found[f"leases of {worker}"] = await every(store, query)
    found["feed"] = await every(store, FeedQuery(tenant_id=tenant_id))
    return found


async def _run(store: Store, tenant_id: str, run_id: str) -> dict[str, object]:
    key = (tenant_id, run_id)
    loaded = await store.load(*key)
    found = {
        name: await every(store, query(tenant_id=tenant_id, run_id=run_id, limit=LIMIT))
        for name, query in OF_A_RUN.items()
    }
    names = [one.execution_id for one in found["executions"]]
    return {
        **found,
        "run": await store.get_run(*key),
        "loaded": loaded and replace(loaded, now_us=0),
        "outcomes": await store.read_payloads(*key, names, texts=True),
        "payloads": await store.read_payloads(*key, [INPUT_KEY, *names]),
        "events": await _events(store, *key),
    }


async def _events(store: Store, tenant_id: str, run_id: str) -> list[object]:
    found: list[object] = []
    while True:
        page = await store.read_events(tenant_id, run_id, after=len(found), limit=LIMIT)
        found += page.events if page is not None else ()
        if page is None or len(found) >= page.latest:
            return found


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return what is not as it was, in words."""
    found: list[str] = []
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name), after.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            found += [f"{name}, {part}" for part in differences(was, now)]
        elif was != now:
            found.append(f"{name}: was {was}, is {now}"[:2_000])
    return found
