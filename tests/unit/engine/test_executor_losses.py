"""Lost leases at an executor: who is to blame for a worker's end, and who is kept away from whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepwell.core.port import Assignment, PresenceQuery, TaskQuery
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.model import TaskSpec
from stepwell.engine.executor import Executor, Heartbeat
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import AT_ONCE
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    delivery,
)

BAD = [TaskSpec(task_id="bad", retry=AT_ONCE)]
GOOD = [TaskSpec(task_id="good", retry=AT_ONCE)]
PRESENCE_MS = 5_000
OTHER_RUN = "00000000-0000-4000-8000-000000000002"


async def dead(worker: FakeWorker) -> None:
    """End a worker's stream: it is not connected any more, and its leases go on."""
    assert worker.session is not None
    await worker.executor.detach(worker.session)


async def losses(world: ExecutorWorld, run_id: str) -> int:
    page = await world.store.page(TaskQuery(tenant_id=TENANT, run_id=run_id))
    return page.items[0].losses.count


async def take(worker: FakeWorker, count: int) -> Sequence[Assignment]:
    await worker.attach(count)
    return [await worker.next() for _ in range(count)]


async def lost_with_two(world: ExecutorWorld, executor: Executor) -> None:
    """Start the bad step, and have it end two workers."""
    await world.start(executor, BAD)
    for name in ("one", "two"):
        worker = FakeWorker(executor, worker_id=name, instance_id=name)
        await take(worker, 1)
        await dead(worker)
        world.pass_time(10_001)


async def lost_by_a_third(world: ExecutorWorld, executor: Executor) -> Assignment:
    """Have it held by a third worker, which ends too; the lease has run out."""
    await lost_with_two(world, executor)
    third = FakeWorker(executor, worker_id="three", instance_id="three")
    (held,) = await take(third, 1)
    await dead(third)
    world.pass_time(10_001)
    return held


async def wait_in_vain(world: ExecutorWorld, ms: int = 3 * PRESENCE_MS) -> None:
    """Let so much time pass, and the claims be made in it."""
    for _ in range(ms // 1_000 + 3):
        await turns()
        world.pass_time(1_000)
    await turns()


async def status_and_gone(world: ExecutorWorld) -> tuple[str, tuple[str, ...]]:
    page = await world.store.page(TaskQuery(tenant_id=TENANT, run_id=RUN))
    return page.items[0].status, page.items[0].losses.gone


async def test_S13_a_third_worker_is_waited_for_before_its_step_is_condemned(
    world: ExecutorWorld,
) -> None:
    executor = world.executor(presence_ms=PRESENCE_MS)
    await lost_by_a_third(world, executor)
    await wait_in_vain(world, 2 * PRESENCE_MS)
    assert await status_and_gone(world) == ("RUNNING", ("one one", "two two"))
    await wait_in_vain(world, PRESENCE_MS)
    assert (await world.run()).failure.kind == "POISON"


@pytest.mark.parametrize("again", ["one", "three"])
async def test_step_is_not_condemned_if_a_worker_of_it_comes_back_during_the_wait(
    world: ExecutorWorld, again: str
) -> None:
    executor = world.executor(presence_ms=PRESENCE_MS)
    await lost_by_a_third(world, executor)
    await wait_in_vain(world, PRESENCE_MS)
    # It is there for one look, and gone again at the end.
    worker = FakeWorker(executor, worker_id=again, instance_id=again)
    await worker.attach(0)
    await wait_in_vain(world, PRESENCE_MS)
    await dead(worker)
    await wait_in_vain(world, PRESENCE_MS)
    gone = tuple(f"{one} {one}" for one in ("one", "two", "three") if one != again)
    assert await status_and_gone(world) == ("READY", gone)


async def test_lease_that_is_renewed_while_its_worker_is_waited_for_goes_on(
    world: ExecutorWorld,
) -> None:
    executor = world.executor(presence_ms=PRESENCE_MS)
    held = await lost_by_a_third(world, executor)
    await wait_in_vain(world, 2 * PRESENCE_MS)
    name = held.execution.execution_id
    beat = Heartbeat(run_id=RUN, execution_id=name, token=held.token)
    assert list(await executor.heartbeat(TENANT, [beat])) == [True]
    await wait_in_vain(world, PRESENCE_MS)
    await executor.deliver(TENANT, RUN, delivery(held))
    assert await world.status() == "SUCCEEDED"


async def test_S13_a_replica_that_has_just_started_condemns_nothing_at_once(
    world: ExecutorWorld,
) -> None:
    first = world.executor(presence_ms=PRESENCE_MS)
    await lost_by_a_third(world, first)
    await wait_in_vain(world, 2 * PRESENCE_MS)
    await first.close()
    world.executors.clear()
    world.executor(presence_ms=PRESENCE_MS)
    await wait_in_vain(world, 2 * PRESENCE_MS)
    assert (await status_and_gone(world))[0] == "RUNNING"
    await wait_in_vain(world, PRESENCE_MS)
    assert (await world.run()).failure.kind == "POISON"


async def test_nobody_is_condemned_while_the_store_does_not_say_who_is_connected(
    world: ExecutorWorld,
) -> None:
    async def first(method: str, *query: object, **_: object) -> None:
        if away and method == "page" and isinstance(query[0], PresenceQuery):
            raise StoreUnavailable("the store is away")

    away = False
    executor = world.executor(Rigged(world.store, first), presence_ms=PRESENCE_MS)
    await lost_by_a_third(world, executor)
    await wait_in_vain(world, PRESENCE_MS)
    away = True
    await wait_in_vain(world, PRESENCE_MS)
    away = False
    await wait_in_vain(world, PRESENCE_MS)
    assert await status_and_gone(world) == ("READY", ("one one", "two two"))


async def test_suspect_step_is_any_worker_s_once_those_that_it_was_lost_with_are_back(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    await lost_with_two(world, executor)
    busy = FakeWorker(executor)
    await world.start(executor, GOOD, run_id=OTHER_RUN)
    await busy.attach(2)
    assert (await busy.next()).execution.task_id == "good"
    await wait_in_vain(world, 3_000)
    assert busy.pile.empty()
    await FakeWorker(executor, worker_id="one", instance_id="one").attach(0)
    await wait_in_vain(world, 1_000)
    assert (await busy.next()).execution.task_id == "bad"
    assert (await status_and_gone(world))[1] == ("two two",)


async def test_S13_losses_with_a_suspect_step_count_for_nobody_else(world: ExecutorWorld) -> None:
    executor = world.executor()
    await world.start(executor, BAD)
    first = FakeWorker(executor, worker_id="first", instance_id="one")
    await take(first, 1)
    await dead(first)
    world.pass_time(10_001)
    second = FakeWorker(executor, worker_id="second", instance_id="two")
    await take(second, 1)
    await world.start(executor, GOOD, run_id=OTHER_RUN)
    second.credit()
    assert (await second.next()).execution.task_id == "good"
    await dead(second)
    world.pass_time(10_001)
    third = FakeWorker(executor, worker_id="third", instance_id="three")
    await third.attach(2)
    # It gets one of the two; and the suspect one alone, once the other is done.
    got = await third.next()
    await turns()
    assert third.pile.empty()
    order = [got.execution.task_id]
    if order == ["good"]:
        await third.deliver(got)
        third.credit()
        while third.pile.empty():
            world.pass_time(1_000)
            await turns()
        got = await third.next()
        order.append(got.execution.task_id)
        assert order == ["good", "bad"]
    assert (await losses(world, OTHER_RUN), await losses(world, got.run.run_id)) == (0, 2)
    # A third loss, alone: poison, and counted.
    await dead(third)
    world.pass_time(10_001)
    await wait_in_vain(world)
    assert executor.stats.get("poisoned_steps") == 1


async def test_S13_a_suspect_step_has_its_worker_for_itself_until_it_ends(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    await lost_with_two(world, executor)
    worker = FakeWorker(executor)
    await worker.attach(2)
    bad = await worker.next()
    await world.start(executor, GOOD, run_id=OTHER_RUN)
    await turns()
    assert worker.pile.empty()
    await worker.deliver(bad)
    while worker.pile.empty():
        world.pass_time(1_000)
        await turns()
    assert (await worker.next()).execution.task_id == "good"


async def test_suspect_step_does_not_wait_for_leases_of_its_worker_s_earlier_instance(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    for run_id in (RUN, OTHER_RUN):
        await world.start(executor, BAD, run_id=run_id)
    for name in ("one", "two"):
        worker = FakeWorker(executor, worker_id=name, instance_id=name)
        await take(worker, 2)
        await dead(worker)
        world.pass_time(10_001)
    before = FakeWorker(executor, instance_id="before")
    (held,) = await take(before, 1)
    await dead(before)
    # Its lease goes on until it is known whether its step is poison.
    now = FakeWorker(executor, instance_id="now")
    await now.attach(1)
    await wait_in_vain(world, ms=3_000)
    assert {held.run.run_id, now.pile.get_nowait().run.run_id} == {RUN, OTHER_RUN}


async def test_lost_lease_of_a_worker_that_is_connected_raises_no_suspicion(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=3)
    await world.start(executor, BAD)
    for attempt in (1, 2, 3):
        assert (await worker.next()).execution.attempt == attempt
        world.pass_time(10_001)
        await turns()
        world.pass_time(4_000)
    await turns()
    page = await world.store.page(TaskQuery(tenant_id=TENANT, run_id=RUN))
    assert (page.items[0].losses.count, page.items[0].losses.gone) == (3, ())


async def test_worker_that_lets_leases_run_out_comes_last_until_its_first_outcome(
    world: ExecutorWorld,
) -> None:
    executor, slow = await world.serving(credits=3)
    await world.start(executor, BAD)
    for attempt, rest_ms in ((1, 1_000), (2, 2_000)):
        late = await slow.next()
        assert late.execution.attempt == attempt
        world.pass_time(10_001)
        await turns()
        # It is the only worker, and yet it is given nothing for a while.
        world.pass_time(rest_ms - 1)
        await turns()
        assert slow.pile.empty()
        world.pass_time(1)
    assert (await slow.next()).execution.attempt == 3
    other = FakeWorker(executor, worker_id="other", instance_id="two")
    await other.attach(2)
    slow.credit(5)
    for number in (2, 3):
        await world.start(executor, GOOD, run_id=f"{OTHER_RUN[:-1]}{number}")
        assert (await other.next()).execution.task_id == "good"
    await world.start(executor, GOOD, run_id=f"{OTHER_RUN[:-1]}4")
    await slow.deliver(await slow.next())
    # From its first outcome on it has its turns again.
    other.credit(5)
    for number in (5, 6):
        await world.start(executor, GOOD, run_id=f"{OTHER_RUN[:-1]}{number}")
    await turns()
    assert (slow.pile.qsize(), other.pile.qsize()) == (1, 1)
