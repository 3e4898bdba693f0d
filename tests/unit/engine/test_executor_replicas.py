"""Several executors over one store: races, hints, and turns on a run that they share."""

from __future__ import annotations

import asyncio

from stepwell.core.records.model import TaskSpec
from stepwell.core.records.states import RunStatus
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    delivery,
    until,
)


async def test_two_replicas_share_a_run_and_the_one_that_lost_a_race_reloads(
    world: ExecutorWorld,
) -> None:
    first, second = world.executor(), world.executor()
    one, two = FakeWorker(first, worker_id="one"), FakeWorker(second, worker_id="two")
    await one.attach(credits=10)
    await world.start(first, [TaskSpec(task_id=f"t{n}") for n in range(4)])
    held = [await one.next() for _ in range(4)]
    await two.attach(credits=10)
    replies = await asyncio.gather(
        *(first.deliver(TENANT, RUN, delivery(a)) for a in held[:2]),
        *(second.deliver(TENANT, RUN, delivery(a)) for a in held[2:]),
    )
    assert [reply.status for reply in replies] == ["ACCEPTED"] * 4
    assert await world.status() is RunStatus.SUCCEEDED


async def test_task_made_ready_on_one_replica_runs_on_another(
    world: ExecutorWorld,
) -> None:
    first, second = world.executor(), world.executor()
    worker = FakeWorker(second)
    await worker.attach()
    await world.start(first, chain("a"))
    # It has claimed in vain before, so a hint alone makes it wait for a moment.
    world.runtime.advance(100)
    assert (await worker.next()).execution.task_id == "a"


async def test_a_replica_s_own_commits_cause_no_claims(world: ExecutorWorld) -> None:
    store = Rigged(world.store)
    executor, worker = await world.serving(store=store, credits=5)
    await world.start(executor, chain("a", "b", "c", "d"))
    await worker.deliver(await worker.next())
    second = await worker.next()
    await turns(100)
    before = store.calls["claim"]
    await worker.deliver(second)
    await worker.deliver(await worker.next())
    await turns(100)
    world.runtime.advance(100)
    await turns(100)
    assert store.calls["claim"] == before


async def test_hints_alone_cause_no_storm_of_claims(world: ExecutorWorld) -> None:
    store = Rigged(world.store)
    world.executor(store)
    busy = world.executor()
    worker = FakeWorker(busy)
    await worker.attach()
    await until(lambda: store.calls["claim"] == 1)
    await world.start(busy, chain(*(f"t{n}" for n in range(30))))
    await worker.do_all(world.store)
    # One a commit would be thirty; by the clock of the machine there is time for a few.
    assert store.calls["claim"] <= 10
    world.runtime.advance(100)
    await until(lambda: store.calls["claim"] >= 2)


async def test_a_hint_that_is_held_back_holds_nothing_else_back(world: ExecutorWorld) -> None:
    store = Rigged(world.store)
    executor, busy = world.executor(store), world.executor()
    await until(lambda: store.calls["claim"] == 1)
    await world.start(busy, chain("a"))
    await turns(100)
    executor.wake()
    await turns(100)
    assert store.calls["claim"] >= 2


async def test_hinted_version_is_read_before_a_decision(world: ExecutorWorld) -> None:
    first, second = world.executor(), world.executor()
    mine, theirs = FakeWorker(first, worker_id="mine"), FakeWorker(second, worker_id="theirs")
    await mine.attach()
    await theirs.attach()
    await world.start(first, [TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    at_first = await mine.next()
    world.runtime.advance(100)
    at_second = await theirs.next()
    await theirs.deliver(at_second)
    await mine.deliver(at_first)
    assert await world.status() is RunStatus.SUCCEEDED
    assert first.stats["caught_up"] == 1
    assert first.stats.get("commits_conflict", 0) == 0


async def test_winner_of_a_contended_commit_yields_the_next_one(
    world: ExecutorWorld,
) -> None:
    first, second = world.executor(), world.executor()
    mine, theirs = FakeWorker(first, worker_id="mine"), FakeWorker(second, worker_id="theirs")
    await mine.attach(credits=3)
    await theirs.attach()
    await world.start(first, [TaskSpec(task_id=f"t{n}") for n in range(6)], max_parallel=6)
    held = [await mine.next() for _ in range(3)]
    world.runtime.advance(100)
    await theirs.deliver(await theirs.next())
    # The first outcome is decided at once; what follows waits for the others to have had a turn.
    await mine.deliver(held[0])
    waiting = asyncio.ensure_future(mine.deliver(held[1]))
    await turns(100)
    assert not waiting.done()
    world.runtime.advance(100)
    await waiting
