"""Everything that a store has of a tenant, to be compared before and after what must change nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    ExecutionQuery,
    FeedQuery,
    InputQuery,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    RunQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records.model import Execution, Run

T = TypeVar("T")
Page = tuple[Sequence[T], str]
LIMIT = 500


async def rows_of(
    store: Store, tenant_id: str, *, workers: Iterable[str] = (), gone: Iterable[str] = ()
) -> dict[str, object]:
    """Return all rows by what they are; `gone` names runs that are deleted, and must stay so."""
    found: dict[str, object] = {}
    runs = [run.spec.run_id for run in await _all(lambda at: _runs(store, tenant_id, at))]
    for run_id in [*runs, *gone]:
        found[run_id] = await _run(store, tenant_id, run_id)
    for worker in workers:
        found[f"leases of {worker}"] = (
            await store.page(LeaseQuery(tenant_id=tenant_id, worker_id=worker))
        ).items
    found["feed"] = await _feed(store, tenant_id)
    return found


async def _runs(store: Store, tenant_id: str, cursor: str) -> Page[Run]:
    page = await store.page(RunQuery(tenant_id=tenant_id, cursor=cursor, limit=LIMIT))
    return page.items, page.cursor


async def _run(store: Store, tenant_id: str, run_id: str) -> dict[str, object]:
    key = (tenant_id, run_id)

    async def tasks(cursor: str) -> Page[object]:
        page = await store.page(
            TaskQuery(tenant_id=key[0], run_id=key[1], cursor=cursor, limit=LIMIT)
        )
        return page.items, page.cursor

    async def executions(cursor: str) -> Page[Execution]:
        page = await store.page(
            ExecutionQuery(tenant_id=key[0], run_id=key[1], cursor=cursor, limit=LIMIT)
        )
        return page.items, page.cursor

    async def messages(cursor: str) -> Page[object]:
        page = await store.page(
            MessageQuery(tenant_id=key[0], run_id=key[1], cursor=cursor, limit=LIMIT)
        )
        return page.items, page.cursor

    async def inputs(cursor: str) -> Page[object]:
        query = InputQuery(tenant_id=tenant_id, run_id=run_id, cursor=cursor, limit=LIMIT)
        page = await store.page(query)
        return page.items, page.cursor

    loaded = await store.load(*key)
    attempts = await _all(executions)
    names = [one.execution_id for one in attempts]
    return {
        "run": await store.get_run(*key),
        "loaded": loaded and replace(loaded, now_us=0),
        "tasks": await _all(tasks),
        "executions": attempts,
        "outcomes": await store.read_payloads(*key, names, texts=True),
        "payloads": await store.read_payloads(*key, [INPUT_KEY, *names]),
        "inputs": await _all(inputs),
        "messages": await _all(messages),
        "log": (await store.page(LogQuery(tenant_id=key[0], run_id=key[1], limit=LIMIT))).items,
        "events": await _events(store, *key),
    }


async def _all(page_at: Callable[[str], Awaitable[Page[T]]]) -> list[T]:
    found: list[T] = []
    cursor = ""
    while True:
        page, cursor = await page_at(cursor)
        found += page
        if not cursor:
            return found


async def _events(store: Store, tenant_id: str, run_id: str) -> list[object]:
    found: list[object] = []
    while True:
        page = await store.read_events(tenant_id, run_id, after=len(found), limit=LIMIT)
        found += page.events if page is not None else ()
        if page is None or len(found) >= page.latest:
            return found


async def _feed(store: Store, tenant_id: str) -> list[object]:
    found: list[object] = []
    cursor = ""
    while True:
        page = await store.page(FeedQuery(tenant_id=tenant_id, cursor=cursor))
        found += page.items
        cursor = page.cursor
        if not page.items:
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
