"""Idempotency keys across runs: who has one, who waits, and what a reservation means whose run is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.loop.idempotency import ASK_AGAIN_MS, LOOK_AGAIN_MS
from stepwell.core.loop.occurrences import Cancel, Completed, Failed, Pause, Planned, Resume, Start
from stepwell.core.port import NOBODY, KeySwap, Reservation, Store, TaskQuery
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.model import Failure, Payload, RunSpec, Task, TaskSpec
from stepwell.core.records.states import BlockedKind, EventType, OnFailure, RunStatus
from stepwell.engine.key_waits import CHECK_PAUSE_SECONDS, UNDECIDED_SECONDS
from stepwell_testkit.conformance.harness import turns
from stepwell_testkit.proxy import StoreProxy
from tests.support.patience import PATIENCE_S
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    until,
)

OTHER = "00000000-0000-4000-8000-000000000002"
THIRD = "00000000-0000-4000-8000-000000000003"
KEYED = TaskSpec(task_id="a", idempotency_key="k")
BAD = Failed(failure=Failure(kind="Bad", message="bad", retryable=False))


async def task_of(world: ExecutorWorld, run_id: str) -> Task:
    return (await world.store.page(TaskQuery(tenant_id=TENANT, run_id=run_id))).items[0]


async def reservation(world: ExecutorWorld) -> Reservation:
    return (await world.store.swap_keys(TENANT, "", [KeySwap(key="k")]))[0]


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Let other tasks run until this is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await turns()


async def blocked_on_key(world: ExecutorWorld, run_id: str, holder: str) -> None:
    """Wait until the run is shown as waiting for the key that the holder has."""

    async def is_blocked() -> bool:
        return (await world.run(run_id)).blocked_on is BlockedKind.KEY

    await eventually(is_blocked)
    assert (await world.run(run_id)).blocked_run_id == holder
    assert (await task_of(world, run_id)).key_run_id == holder


async def other_replica(world: ExecutorWorld) -> FakeWorker:
    worker = FakeWorker(world.executor(), worker_id="other")
    await worker.attach(2)
    return worker


@pytest.mark.parametrize("result", [Completed(result=Payload(data=b"7")), BAD])
async def test_a_run_waits_for_the_key_and_is_woken_by_the_commit_that_settles_it(
    world: ExecutorWorld, result: Completed | Failed
) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, [KEYED])
    first = await worker.next()
    await world.start(executor, [KEYED], run_id=OTHER)
    await blocked_on_key(world, OTHER, RUN)
    await worker.deliver(first, result)
    if isinstance(result, Completed):
        await until(lambda: executor.held(TENANT, OTHER) is None)
        assert (await task_of(world, OTHER)).deduplicated_from == f"{RUN}/task:a#1"
        assert (await world.store.read_payloads(TENANT, OTHER, ["task:a#1"]))[
            0
        ].payload == result.result
        assert worker.pile.empty()
    else:
        again = await worker.next()
        assert again.run.run_id == OTHER


async def test_planned_task_waits_for_the_key_that_another_run_has(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=3)
    await world.start(executor, [KEYED])
    await worker.next()
    planned = RunSpec(tenant_id=TENANT, run_id=OTHER)
    await executor.send(TENANT, OTHER, Start(spec=planned))
    await worker.deliver(await worker.next(), Planned(tasks=(KEYED,)))
    await blocked_on_key(world, OTHER, RUN)
    assert worker.pile.empty()
    page = await world.store.read_events(TENANT, OTHER, after=0, limit=9)
    assert page is not None
    (planned_at,) = [one.version for one in page.events if one.type is EventType.PLAN_ACCEPTED]
    assert (await world.run(OTHER)).version == planned_at, "the wait took a commit of its own"


async def test_given_up_key_goes_to_the_next_task_of_its_run_on_any_replica(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving()
    other = await other_replica(world)
    plan = [replace(KEYED, on_failure=OnFailure.CONTINUE), replace(KEYED, task_id="b")]
    await world.start(executor, plan)
    await other.deliver(await worker.next(), BAD)
    assert (await other.next()).execution.task_id == "b"


@pytest.mark.parametrize("result", [Completed(), BAD])
async def test_a_run_of_another_replica_is_woken_by_the_store_s_hint(
    world: ExecutorWorld, result: Completed | Failed
) -> None:
    executor, worker = await world.serving()
    other = await other_replica(world)
    await world.start(executor, [KEYED])
    first = await worker.next()
    await world.start(other.executor, [KEYED], run_id=OTHER)
    await blocked_on_key(world, OTHER, RUN)
    await worker.deliver(first, result)
    await turns()
    world.pass_time(int(CHECK_PAUSE_SECONDS * 1_000))
    if isinstance(result, Failed):
        await other.deliver(await other.next())
    await until(lambda: other.executor.held(TENANT, OTHER) is None)
    assert await world.status(OTHER) is RunStatus.SUCCEEDED


class Deaf(StoreProxy):
    """A store whose hints are lost."""

    def subscribe(self, hint: Any) -> Any:
        del hint
        return lambda: None


async def test_commit_that_settles_a_task_while_its_run_is_read_wakes_the_reader(
    world: ExecutorWorld,
) -> None:
    class Slow(Deaf):
        """Reads of the holder return what was there before others had their turn."""

        reading = asyncio.Event()
        go_on = asyncio.Event()

        async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Any:
            loaded = await self.inner.load(tenant_id, run_id, since=since)
            if run_id == RUN and not self.go_on.is_set():
                self.reading.set()
                await self.go_on.wait()
            return loaded

    store = Slow(world.store)
    executor, worker = await world.serving(store=store, credits=2)
    await world.start(executor, [KEYED])
    first = await worker.next()
    await world.start(executor, [KEYED], run_id=OTHER)
    await store.reading.wait()
    await worker.deliver(first)
    store.go_on.set()
    await blocked_on_key(world, OTHER, RUN)
    world.pass_time(int(CHECK_PAUSE_SECONDS * 1_000))
    await until(lambda: executor.held(TENANT, OTHER) is None)
    assert await world.status(OTHER) is RunStatus.SUCCEEDED


async def test_a_wait_that_nobody_ends_is_ended_by_the_timer(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    deaf = world.executor(store=Deaf(world.store))
    await world.start(executor, [KEYED])
    first = await worker.next()
    await world.start(deaf, [KEYED], run_id=OTHER)
    await blocked_on_key(world, OTHER, RUN)
    await worker.deliver(first)
    assert await world.status(OTHER) is RunStatus.QUEUED
    world.pass_time(LOOK_AGAIN_MS)

    async def has_succeeded() -> bool:
        return await world.status(OTHER) is RunStatus.SUCCEEDED

    await eventually(has_succeeded)


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_the_end_of_a_run_and_its_deletion_free_its_keys(
    world: ExecutorWorld, end: str
) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, [KEYED])
    await worker.next()
    await world.start(executor, [KEYED], run_id=OTHER)
    await blocked_on_key(world, OTHER, RUN)
    if end == "cancel":
        await executor.send(TENANT, RUN, Cancel())
    else:
        version = (await world.run()).version
        assert await world.store.delete_run(TENANT, RUN, version=version)
        assert await reservation(world) == NOBODY
        await turns()
        world.pass_time(int(CHECK_PAUSE_SECONDS * 1_000))
    assert (await worker.next()).run.run_id == OTHER


async def test_a_question_a_pause_and_a_back_off_keep_the_key(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, [KEYED])
    again = Failed(failure=Failure(kind="Flaky", message="once more"))
    await worker.deliver(await worker.next(), again)
    await world.start(executor, [KEYED], run_id=OTHER)
    await blocked_on_key(world, OTHER, RUN)
    await executor.send(TENANT, RUN, Pause())
    world.pass_time(LOOK_AGAIN_MS)
    await executor.quiet()
    await blocked_on_key(world, OTHER, RUN)
    await executor.send(TENANT, RUN, Resume())
    assert (await worker.next()).run.run_id == RUN


class Dying(StoreProxy):
    """A store whose commits are lost on the way, once it is told so."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.dead = False

    async def commit(self, commits: Sequence[Any]) -> Sequence[Any]:
        if self.dead and any(one.leases for one in commits):
            await asyncio.Event().wait()
        return await self.inner.commit(commits)


async def test_reservation_of_a_dead_replica_stands_until_its_run_goes_on(
    world: ExecutorWorld,
) -> None:
    dying = Dying(world.store)
    executor, _ = await world.serving(store=dying)
    dying.dead = True
    await world.start(executor, [KEYED])

    async def has_reserved() -> bool:
        return (await reservation(world)).run_id == RUN

    await eventually(has_reserved)
    # It has claimed its run's timer, too, and holds it: nobody else moves the run on.
    await turns(100)
    version = (await world.run()).version
    other = world.executor()
    await world.start(other, [KEYED], run_id=OTHER)
    # The lease may still come by the very next commit.
    await blocked_on_key(world, OTHER, RUN)
    other_worker = FakeWorker(other, worker_id="other")
    await other_worker.attach()
    world.pass_time(int(UNDECIDED_SECONDS * 1_000))

    async def has_gone_on() -> bool:
        return (await world.run()).version > version

    await eventually(has_gone_on)
    got = await other_worker.next()
    assert (await reservation(world)).run_id == got.run.run_id


@pytest.mark.parametrize("run_id", ["gone", RUN])
async def test_a_reservation_that_came_to_nothing_is_replaced_at_once(
    world: ExecutorWorld, run_id: str
) -> None:
    stale = Reservation(run_id=run_id, commit_id="an older commit")
    await world.store.swap_keys(TENANT, "", [KeySwap(key="k", after=stale)])
    executor, worker = await world.serving(credits=2)
    await world.start(executor, [TaskSpec(task_id="x")])
    await worker.next()
    await world.start(executor, [KEYED], run_id=OTHER)
    assert (await worker.next()).run.run_id == OTHER


async def test_step_after_one_whose_key_is_not_reserved_yet_reaches_its_worker(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=2)
    names = [f"k{n}" for n in range(1, 10)]
    done = [TaskSpec(task_id=name, idempotency_key=name) for name in names]
    await world.start(executor, done, max_parallel=1)
    await worker.do_all(world.store)
    # One answer of the store after the other settles the chain. The last one that a decision asks for leaves "free"
    # unreserved, as it has fewer free workers than keys.
    chain = [replace(one, depends_on=(before.task_id,)) for before, one in pairwise(done[:7])]
    last = [
        TaskSpec(task_id=one, idempotency_key=one, depends_on=("k7",))
        for one in ("k8", "k9", "free")
    ]
    plain = TaskSpec(task_id="plain", depends_on=("k7",))
    await world.start(executor, [done[0], *chain, *last, plain], run_id=OTHER, max_parallel=4)
    got = [(await worker.next()).execution for _ in range(2)]
    assert sorted(one.task_id for one in got) == ["free", "plain"]
    assert [one.attempt for one in got] == [1, 1]


async def test_two_runs_that_reserve_at_once_are_never_both_under_way(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=2)
    other = await other_replica(world)
    await asyncio.gather(
        world.start(executor, [KEYED], run_id=RUN),
        world.start(other.executor, [KEYED], run_id=OTHER),
        world.start(executor, [KEYED], run_id=THIRD),
    )
    piles = (worker, other)
    await until(lambda: any(not one.pile.empty() for one in piles))
    await turns(200)
    assert sum(one.pile.qsize() for one in piles) == 1
    tasks = [await task_of(world, run_id) for run_id in (RUN, OTHER, THIRD)]
    assert [one.held_key for one in tasks].count("k") == 1


async def test_without_the_key_s_partition_nothing_is_leased(world: ExecutorWorld) -> None:
    is_down = True

    async def first(method: str, *_: Any, **__: Any) -> None:
        if method == "swap_keys" and is_down:
            raise StoreUnavailable("not now")

    executor, worker = await world.serving(store=Rigged(world.store, first), credits=2)
    await world.start(executor, [KEYED, TaskSpec(task_id="b")])
    assert (await worker.next()).execution.task_id == "b"
    world.pass_time(ASK_AGAIN_MS)
    await executor.quiet()
    assert worker.pile.empty()
    is_down = False
    world.pass_time(ASK_AGAIN_MS)
    assert (await worker.next()).execution.task_id == "a"


async def test_a_run_without_keys_asks_for_none(world: ExecutorWorld) -> None:
    store = Rigged(world.store)
    executor, worker = await world.serving(store=store)
    await world.start(executor, [TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    await worker.do_all(world.store)
    assert store.calls["swap_keys"] == 0


async def test_a_task_with_a_key_costs_a_swap_at_its_offer_and_one_at_a_later_lease(
    world: ExecutorWorld,
) -> None:
    store = Rigged(world.store)
    executor, worker = await world.serving(store=store)
    calls: list[tuple[int, int]] = []
    plans = (
        [TaskSpec(task_id="a")],
        [KEYED],
        [KEYED, replace(KEYED, task_id="b", idempotency_key="l", depends_on=("a",))],
    )
    for run_id, plan in zip(("r0", "r1", "r2"), plans, strict=True):
        store.calls.clear()
        fresh = [
            replace(one, idempotency_key=one.idempotency_key and one.idempotency_key + run_id)
            for one in plan
        ]
        await world.start(executor, fresh, run_id=run_id)
        await worker.do_all(world.store, run_id)
        await executor.quiet()
        calls.append((store.calls["commit"], store.calls["swap_keys"]))
    # The last task waits for a worker: the store is asked when it is offered, and again for the lease.
    assert calls == [(2, 0), (3, 1), (5, 3)]
