"""Lost leases at an executor: who is to blame for a worker's end, and who is kept away from whom."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.port import Assignment, TaskQuery
from stepwell.core.records.model import TaskSpec
from stepwell_testkit.conformance.harness import turns
from tests.unit.executor_world import RUN, TENANT, ExecutorWorld, FakeWorker, until
from tests.unit.loop_world import AT_ONCE

BAD = [TaskSpec(task_id="bad", retry=AT_ONCE)]
GOOD = [TaskSpec(task_id="good", retry=AT_ONCE)]
GOOD_RUN = "00000000-0000-4000-8000-000000000002"


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


async def test_S13_losses_with_a_suspect_step_count_for_nobody_else(world: ExecutorWorld) -> None:
    executor = world.executor()
    await world.start(executor, BAD)
    first = FakeWorker(executor, worker_id="first", instance_id="one")
    await take(first, 1)
    await dead(first)
    world.pass_time(10_001)
    second = FakeWorker(executor, worker_id="second", instance_id="two")
    await take(second, 1)
    await world.start(executor, GOOD, run_id=GOOD_RUN)
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
    assert (await losses(world, GOOD_RUN), await losses(world, got.run.run_id)) == (0, 2)
    # A third loss, alone: poison, and counted.
    await dead(third)
    world.pass_time(10_001)
    await until(lambda: executor.stats.get("poisoned_steps") == 1)


async def test_S13_a_suspect_step_has_its_worker_for_itself_until_it_ends(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    await world.start(executor, BAD)
    for name in ("one", "two"):
        worker = FakeWorker(executor, worker_id=name, instance_id=name)
        await take(worker, 1)
        await dead(worker)
        world.pass_time(10_001)
    worker = FakeWorker(executor)
    await worker.attach(2)
    bad = await worker.next()
    await world.start(executor, GOOD, run_id=GOOD_RUN)
    await turns()
    assert worker.pile.empty()
    await worker.deliver(bad)
    while worker.pile.empty():
        world.pass_time(1_000)
        await turns()
    assert (await worker.next()).execution.task_id == "good"


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
        await world.start(executor, GOOD, run_id=f"{GOOD_RUN[:-1]}{number}")
        assert (await other.next()).execution.task_id == "good"
    await world.start(executor, GOOD, run_id=f"{GOOD_RUN[:-1]}4")
    await slow.deliver(await slow.next())
    # From its first outcome on it has its turns again.
    other.credit(5)
    for number in (5, 6):
        await world.start(executor, GOOD, run_id=f"{GOOD_RUN[:-1]}{number}")
    await turns()
    assert (slow.pile.qsize(), other.pile.qsize()) == (1, 1)
