"""Earlier versions of a run: folded a little at a time, remembered within bounds, refused when gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.app import history
from stepwell.app.forks import ForkOrder, prepare_fork
from stepwell.app.history import History
from stepwell.core.loop import checkpoints
from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import (
    Cancel,
    Completed,
    Delivery,
    GrantLease,
    Occurrence,
    Start,
)
from stepwell.core.loop.state import RunState
from stepwell.core.port import EventPage, Store
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import CursorOutOfRange, InvalidArgument, RunNotFound
from stepwell.core.records.model import Run, RunSpec
from stepwell.core.records.states import OPEN, Effect, ForkMode
from stepwell.runtime import SystemRuntime
from stepwell_testkit.proxy import StoreProxy
from tests.unit.core.circling import circling
from tests.unit.core.loop_world import World, committed, planned, task, tasks
from tests.unit.engine.executor_world import Rigged

TASKS = 400
RUNTIME = SystemRuntime()


async def long_run(store: Store) -> Run:
    """A run of some 800 events in 800 commits, which is over."""
    state = RunState.empty("t", "r")

    async def take(occurrence: Occurrence) -> None:
        context = Context(commit_id=f"c{state.run.version + 1}", now_us=1)
        commit = committed(advance(state, [occurrence], context))
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
    rows = await History(store, RUNTIME).rows_at(run, run.version - 1)
    ticking.cancel()
    assert rows.run.version == run.version - 1
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


@pytest.fixture
def early_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "BASE_EVENTS_MIN", 16)
    monkeypatch.setattr(history, "PAGE_EVENTS", 16)


async def stored(store: Store, world: World) -> Run:
    """Let a store have a run of the loop's world."""
    await store.commit(world.commits)
    return world.run


class Counting(StoreProxy):
    """Counts the events that are read, and shows no base if told so."""

    def __init__(self, inner: Store, *, bases: bool = True) -> None:
        super().__init__(inner)
        self.bases = bases
        self.read: list[int] = []

    async def read_base(self, tenant_id: str, run_id: str, *, version: int) -> Checkpoint | None:
        found = await self.inner.read_base(tenant_id, run_id, version=version)
        return found if self.bases else None

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        page = await self.inner.read_events(tenant_id, run_id, after=after, limit=limit)
        self.read += [event.number for event in page.events] if page is not None else []
        return page


def order_of(run: Run, version: int = 0) -> ForkOrder:
    return ForkOrder(
        tenant_id=run.spec.tenant_id,
        parent_run_id=run.spec.run_id,
        run_id="fork",
        actor="caller",
        executor_id="",
        request_fingerprint="",
        version=version,
        mode=ForkMode.STRICT,
        plan=None,
        replan=False,
        input=None,
        goal=None,
        queue="",
        labels={},
        max_iterations=None,
        max_parallel=None,
        priority=None,
        budget=None,
        worker_version=None,
    )


@pytest.mark.usefixtures("early_bases")
async def test_S20_fold_from_the_nearest_base_equals_one_from_the_first_event(
    store: Store,
) -> None:
    run = await stored(store, circling(12))
    for version in range(1, run.version + 1):
        rows = [
            await History(Counting(store, bases=bases), RUNTIME).rows_at(run, version)
            for bases in (True, False)
        ]
        assert rows[0].run == rows[1].run
        assert rows[0].tasks == rows[1].tasks
        # What had ended by the base is left out; all else is the same.
        assert rows[0].executions.items() <= rows[1].executions.items()
        left_out = rows[1].executions.keys() - rows[0].executions.keys()
        assert not any(rows[1].executions[name].status in OPEN for name in left_out)


@pytest.mark.usefixtures("early_bases")
@pytest.mark.parametrize("iterations", [10, 60])
async def test_fork_reads_the_events_since_its_base_however_long_the_run_is(
    store: Store, iterations: int
) -> None:
    run = await stored(store, circling(iterations))
    base = await store.read_base("tenant", "run", version=run.version)
    assert base is not None
    counting = Counting(store)
    await prepare_fork(counting, History(counting, RUNTIME), order_of(run))
    assert counting.read == list(range(base.state.last_event + 1, run.last_event + 1))
    assert len(counting.read) < run.last_event / 2


@pytest.mark.usefixtures("early_bases")
async def test_fork_is_the_same_with_and_without_a_base(store: Store) -> None:
    world = planned(
        task("asks"),
        *tasks("once", "forgotten", effect=Effect.AT_MOST_ONCE),
        *tasks("plain", "other", "more", "last"),
    )
    world.complete("plain", "other", "more", "last")
    world.answer(world.ask("asks"))
    world.begin("task:once#1")
    world.begin("task:forgotten#1")
    world.do(Cancel(actor="caller"))
    run = await stored(store, world)
    base = await store.read_base("tenant", "run", version=run.version)
    assert base is not None, "all that matters has ended by the base"
    assert base.version == run.version
    made = [
        await prepare_fork(one, History(one, RUNTIME), order_of(run))
        for one in (Counting(store), Counting(store, bases=False))
    ]
    assert made[0] == made[1]
    assert {one.task_id for one in made[0].base.misfits} == {"once", "forgotten"}
    assert [one.task_id for one in made[0].base.fork.questions] == ["asks"]


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
