"""Slots of limited queues: never more leases at once than the limit, over all replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from stepwell.core.loop.occurrences import SendSignal
from stepwell.core.port import LeaseQuery, Store
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.routing import TaskPattern
from stepwell.engine.executor import HeldLease
from stepwell_testkit.conformance.harness import turns
from stepwell_testkit.proxy import StoreProxy
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
)

LIMITED: dict[str, Any] = {"queue_limits": (("default", 1),), "lease_ms": 60_000}
OTHER = RUN[:-1] + "2"


class Counted(StoreProxy):
    """A store that counts the leases after each commit."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.most = 0

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        answer = await super().call(method, *args, **kwargs)
        if method == "commit":
            self.most = max(self.most, len(await leases(self.inner)))
        return answer


async def leases(store: Store) -> Sequence[str]:
    page = await store.page(LeaseQuery(tenant_id=TENANT))
    return [lease.execution_id for lease in page.items]


async def pass_seconds(world: ExecutorWorld, seconds: int) -> None:
    for _ in range(seconds):
        world.pass_time(1_000)
        await turns(50)


@pytest.fixture
def counted(world: ExecutorWorld) -> Counted:
    world.store = Counted(world.store)
    return world.store


async def test_two_replicas_never_lease_more_than_the_limit(
    world: ExecutorWorld, counted: Counted
) -> None:
    workers = [
        FakeWorker(world.executor(**LIMITED), worker_id=name, instance_id=name) for name in "ab"
    ]
    for worker, run_id in zip(workers, (RUN, OTHER), strict=True):
        await worker.attach()
        await world.start(worker.executor, [TaskSpec(task_id="t")], run_id=run_id)

    await pass_seconds(world, 40)

    assert (counted.most, sum(worker.pile.qsize() for worker in workers)) == (1, 1)
    first = next(worker for worker in workers if worker.pile.qsize())
    await first.deliver(await first.next())
    first.credit()
    await pass_seconds(world, 3)
    assert (counted.most, sum(worker.pile.qsize() for worker in workers)) == (1, 1)


class Dying(StoreProxy):
    """A store whose calls wait from the nth write on, which is done or not: the replica is dead, or stopped."""

    def __init__(self, inner: Store, nth: int, *, done: bool) -> None:
        super().__init__(inner)
        self.left = nth
        self.done = done
        self.died = asyncio.Event()
        self.go_on = asyncio.Event()

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if method in ("commit", "swap_keys", "claim"):
            self.left -= 1
        if self.left >= 0 or method == "put_presence":
            return await super().call(method, *args, **kwargs)
        first = not self.died.is_set()
        self.died.set()
        if first and self.done:
            answer = await super().call(method, *args, **kwargs)
            await self.go_on.wait()
            return answer
        await self.go_on.wait()
        return await super().call(method, *args, **kwargs)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(
    ("goes_on", "moves_on"),
    [(40, False), (1, False), (1, True)],
    ids=["dies", "goes on", "goes on with a run that moved on"],
)
@pytest.mark.parametrize("nth", range(10))
async def test_a_replica_that_stops_at_any_write_leaves_its_slot_to_others(
    world: ExecutorWorld, counted: Counted, nth: int, goes_on: int, moves_on: bool, done: bool
) -> None:
    store = Dying(counted, nth, done=done)
    settings = {**LIMITED, "lease_ms": 5_000}
    workers = [FakeWorker(world.executor(store, **settings), worker_id="a", instance_id="a")]
    await world.start(world.executor(), chain("t", "u"))
    await world.start(world.executors[1], chain("t"), run_id=OTHER)
    waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(workers[0].attach())]

    def deliver() -> None:
        for worker in workers:
            if worker.pile.qsize():
                waiting.append(asyncio.ensure_future(worker.deliver(worker.pile.get_nowait())))
                worker.credit()

    for _ in range(3):
        await turns(50)
        deliver()
        world.pass_time(100)
    workers.append(FakeWorker(world.executor(**settings), worker_id="b", instance_id="b"))
    await workers[1].attach()
    if moves_on:
        await world.executors[1].send(TENANT, RUN, SendSignal(name="s"))
    for second in range(50):
        if second == goes_on:
            assert (await world.run(OTHER)).ended or goes_on == 1
            store.go_on.set()
        await pass_seconds(world, 1)
        if second >= 4:
            deliver()
    ended = [(await world.run(run_id)).ended for run_id in (RUN, OTHER)]
    assert (ended, counted.most) == ([True, True], 1)
    assert not await leases(world.store)
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("is_same", [True, False], ids=["its replica", "another replica"])
async def test_a_worker_that_comes_back_with_its_lease_gets_none_beyond_the_limit(
    world: ExecutorWorld, counted: Counted, is_same: bool
) -> None:
    worker = FakeWorker(world.executor(**LIMITED))
    await worker.attach(3)
    await world.start(worker.executor, chain("t"))
    await world.start(worker.executor, chain("t"), run_id=OTHER)
    held = await worker.next()
    execution_id = held.execution.execution_id
    lease = HeldLease(run_id=held.run.run_id, execution_id=execution_id, token=held.token)
    again = worker if is_same else FakeWorker(world.executor(**LIMITED))
    assert list(await again.attach(3, [lease])) == [True]
    await pass_seconds(world, 5)
    assert (again.pile.qsize(), counted.most) == (0, 1)
    await again.deliver(held)
    await pass_seconds(world, 5)
    assert (again.pile.get_nowait().run.run_id, counted.most) == (OTHER, 1)


async def test_a_replica_leaves_slots_to_steps_that_only_another_one_can_run(
    world: ExecutorWorld, counted: Counted
) -> None:
    workers = [
        FakeWorker(
            world.executor(**LIMITED, presence_ms=1_000),
            worker_id=name,
            instance_id=name,
            tasks=(TaskPattern(type=name, role=""),),
        )
        for name in "ab"
    ]
    for worker in workers:
        await worker.attach()
    plan = [TaskSpec(task_id="0", type="a")]
    plan += [TaskSpec(task_id=f"{n}", type="a", depends_on=(f"{n - 1}",)) for n in range(1, 60)]
    await world.start(workers[0].executor, plan)
    await world.start(workers[1].executor, [TaskSpec(task_id="t", type="b")], run_id=OTHER)
    for tenth in range(400):
        world.pass_time(100)
        await turns(50)
        for worker in workers:
            if tenth % 10 == 0 and worker.pile.qsize():
                await worker.deliver_with_credits(worker.pile.get_nowait(), 1)
    assert (await world.run(OTHER)).ended
    # The other replica's run went on meanwhile.
    assert (await world.run()).counts.completed > 30
    assert counted.most == 1


@pytest.mark.parametrize("limit", [0, 1, 4])
async def test_a_lease_costs_at_most_two_swaps_and_none_without_a_limit(
    world: ExecutorWorld, limit: int
) -> None:
    changes = 0

    async def count(method: str, *args: Any, **_: Any) -> None:
        nonlocal changes
        if method == "swap_keys":
            changes += any(one.before != one.after for one in args[2])

    store = Rigged(world.store, count)
    limits = (("default", limit),) if limit else ()
    executor, worker = await world.serving(store=store, credits=1, queue_limits=limits)
    for n in range(5):
        run_id = RUN[:-1] + str(n)
        await world.start(executor, chain("a", "b", "c"), run_id=run_id)
        for _ in range(3):
            await worker.deliver_with_credits(await worker.next(), 1)
    await pass_seconds(world, 3)
    # The second and third steps of each run take over the slot of the step before.
    assert changes <= (10 if limit else 0)
    # A full queue's slots, and the runs that have them, may be read once more.
    assert store.calls["swap_keys"] - changes <= limit
    assert (changes > 0) is bool(limit)
    assert store.calls["load"] <= limit
