"""Earlier versions of a run: folded a little at a time, remembered within bounds, refused when gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.app import history
from stepwell.app.history import History
from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.signals import Completed, Delivery, GrantLease, Signal, Start
from stepwell.core.loop.state import RunState
from stepwell.core.port import EventPage, Store
from stepwell.core.records.errors import CursorOutOfRange, InvalidArgument, RunNotFound
from stepwell.core.records.model import Run, RunSpec
from stepwell.runtime import SystemRuntime
from stepwell_testkit.proxy import StoreProxy
from tests.unit.executor_world import Rigged
from tests.unit.loop_world import committed, tasks

TASKS = 400
RUNTIME = SystemRuntime()


async def long_run(store: Store) -> Run:
    """A run of some 800 events in 800 commits, which is over."""
    state = RunState.empty("t", "r")

    async def take(signal: Signal) -> None:
        context = Context(commit_id=f"c{state.run.version + 1}", now_us=1)
        commit = committed(advance(state, [signal], context))
        (result,) = await store.commit([commit])
        assert result.verdict == "COMMITTED"
        state.apply(commit)

    plan = tasks(*(f"t{n}" for n in range(TASKS)))
    await take(Start(spec=RunSpec(tenant_id="t", run_id="r", max_parallel=1), plan=plan))
    while not state.run.ended:
        (name,) = state.open
        await take(GrantLease(execution_id=name, token=f"of {name}", worker_id="w"))
        await take(Delivery(execution_id=name, token=f"of {name}", result=Completed()))
    return state.run


async def test_others_have_their_turn_while_a_long_run_is_folded(store: Store) -> None:
    run = await long_run(store)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    ticking = asyncio.ensure_future(other())
    rows = await History(store, RUNTIME).rows_at(run, run.version)
    ticking.cancel()
    assert rows.run == run
    assert turns >= run.last_event // history.EVENTS_AT_ONCE


async def test_next_fold_begins_at_the_last_folded_version(store: Store) -> None:
    run, looked = await long_run(store), list[int]()

    async def first(method: str, *_: Any, **kwargs: Any) -> None:
        if method == "read_events":
            looked.append(kwargs["after"])

    past = History(Rigged(store, first), RUNTIME)
    early = await past.rows_at(run, 100)
    before = early.run, dict(early.tasks)
    looked.clear()
    await past.rows_at(run, 110)
    assert looked == [early.run.last_event]
    assert (early.run, early.tasks) == before
    looked.clear()
    await past.rows_at(run, 100)
    assert looked == []


async def test_only_so_much_is_remembered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "ROWS_KEPT_MAX", 3 * TASKS)
    run, past = await long_run(store), History(store, RUNTIME)
    for version in range(10, run.version, 40):
        rows = await past.rows_at(run, version)
        assert rows.run.version == version
        assert past.rows_kept <= 3 * TASKS
    assert past.rows_kept > 0


async def test_a_version_to_come_is_refused(store: Store) -> None:
    run = await long_run(store)
    with pytest.raises(InvalidArgument) as caught:
        await History(store, RUNTIME).rows_at(run, run.version + 1)
    assert caught.value.reason == "VERSION_IN_FUTURE"


async def test_events_that_are_not_kept_any_more_are_said(store: Store) -> None:
    run = await long_run(store)

    class Trimmed(StoreProxy):
        async def read_events(
            self, tenant_id: str, run_id: str, *, after: int, limit: int
        ) -> EventPage | None:
            page = await self.inner.read_events(tenant_id, run_id, after=max(after, 4), limit=limit)
            return None if page is None else replace(page, oldest=5)

    with pytest.raises(CursorOutOfRange) as caught:
        await History(Trimmed(store), RUNTIME).rows_at(run, 2)
    assert (caught.value.reason, caught.value.oldest) == ("CURSOR_OUT_OF_RANGE", 5)


async def test_run_deleted_meanwhile_is_not_found(store: Store) -> None:
    run = await long_run(store)
    assert await store.delete_run("t", "r", version=run.version)
    with pytest.raises(RunNotFound):
        await History(store, RUNTIME).rows_at(run, 3)
