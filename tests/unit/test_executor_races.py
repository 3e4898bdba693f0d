"""Races with a slow store: between a lease and its commit, or its assignment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.core.loop.signals import Cancel, Pause
from stepwell.core.port import Store
from stepwell.core.records.model import TaskSpec
from stepwell.engine.appender import AppendBatch
from stepwell_testkit.conformance.harness import turns
from stepwell_testkit.proxy import StoreProxy
from tests.unit.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    until,
)
from tests.unit.loop_world import chain


class Slow(StoreProxy):
    """A store whose calls of one method wait until they are let go on."""

    def __init__(self, inner: Store, method: str) -> None:
        super().__init__(inner)
        self._method = method
        self.waiting = 0
        self.go_on = asyncio.Event()

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if method == self._method:
            self.waiting += 1
            await self.go_on.wait()
        return await super().call(method, *args, **kwargs)


async def test_a_lease_that_is_being_committed_counts_against_its_queue(
    world: ExecutorWorld,
) -> None:
    store = Slow(world.store, "commit")
    executor = world.executor(store, queue_limits=(("default", 1),), presence_ms=1_000)
    worker = FakeWorker(executor)
    await worker.attach(credits=2)
    starting = asyncio.ensure_future(
        world.start(executor, [TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    )
    await until(lambda: store.waiting == 1)
    # Meanwhile it is looked up which leases are over: this one isn't stored yet.
    world.pass_time(1_000)
    await turns(100)
    store.go_on.set()
    await starting
    for _ in range(3):
        world.pass_time(100)
        await turns(100)
    assert worker.pile.qsize() == 1


async def test_lease_ended_before_handout_returns_the_credit(
    world: ExecutorWorld,
) -> None:
    await world.start(world.executor(), chain("a"))
    store = Slow(world.store, "read_payloads")
    executor, worker = await world.serving(store=store, credits=1)
    world.pass_time(100)
    await until(lambda: store.waiting == 1)
    await executor.send(TENANT, RUN, Cancel())
    store.go_on.set()
    await turns(100)

    assert worker.pile.empty()
    assert worker.session is not None
    assert worker.session.credits == 1


async def test_runs_that_are_only_looked_at_take_no_more_room_than_others(
    world: ExecutorWorld,
) -> None:
    other = world.executor()
    ids = [f"00000000-0000-4000-8000-{n:012}" for n in range(10)]
    for run_id in ids:
        await world.start(other, chain("a"), run_id=run_id)
    executor = world.executor(hot_runs_max=3)
    stale = [AppendBatch(run_id=run_id, execution_id="task:a#1", token="none") for run_id in ids]
    assert not any(await executor.append(TENANT, stale))
    assert sum(executor.blocked_counts().values()) == 3


async def test_R1_a_worker_whose_stream_ends_while_it_is_being_connected_is_not_kept(
    world: ExecutorWorld,
) -> None:
    store = Slow(world.store, "put_presence")
    executor = world.executor(store)
    attaching = asyncio.ensure_future(FakeWorker(executor).attach())
    await until(lambda: store.waiting == 1)

    attaching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attaching

    assert not executor.connected


async def test_reply_to_a_command_carries_the_run_it_left(world: ExecutorWorld) -> None:
    executor = world.executor()
    started = await world.start(executor, chain("a"))
    assert started.run == await world.store.get_run(TENANT, RUN)
    paused = await executor.send(TENANT, RUN, Pause())
    assert paused.run == await world.store.get_run(TENANT, RUN)
    again = await executor.send(TENANT, RUN, Pause())
    assert (again.status, again.run) == ("UNCHANGED", paused.run)
    await executor.send(TENANT, RUN, Cancel())
    assert (await executor.send(TENANT, RUN, Pause())).run is None
