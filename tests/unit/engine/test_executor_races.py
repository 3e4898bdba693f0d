"""Races with a slow store: between a lease and its commit, or its assignment."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import Any

import pytest

from stepwell.core.loop.occurrences import Cancel, Pause, Start
from stepwell.core.loop.transition import ReplyStatus
from stepwell.core.port import Assignment
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.journal import Entry
from stepwell.core.records.journal_answers import JournalAnswer
from stepwell.core.records.model import Failure, Payload, RetryPolicy, RunSpec, TaskSpec
from stepwell.core.records.states import RunStatus
from stepwell.engine.appender import AppendBatch
from stepwell.engine.journal_writer import NewEntries
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    Slow,
    until,
)


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


async def test_S12_an_assignment_that_could_not_be_filled_spends_no_attempt(
    world: ExecutorWorld,
) -> None:
    once = RetryPolicy(max_attempts=1)
    spec = RunSpec(tenant_id=TENANT, run_id=RUN)
    start = Start(spec=spec, plan=tuple(chain("a", retry=once)), input=Payload(data=b'"x"'))
    await world.executor().send(TENANT, RUN, start)
    # It refuses the read of an assignment's bytes, and then the commits that would release it.
    left = Counter({"read_payloads": 1, "commit": 0})

    async def first(method: str, *_: Any, **__: Any) -> None:
        if left[method]:
            left[method] -= 1
            left["commit"] += 3 * (method == "read_payloads")
            raise StoreUnavailable("it refused")

    store = Rigged(world.store, first)
    # It has nothing at hand, and must read the run's input.
    worker = FakeWorker(world.executor(store, lease_ms=10_000))
    await worker.attach(1)
    for _ in range(80):
        world.pass_time(500)
        await turns()
        if not worker.pile.empty():
            break
    assert left.total() == 0
    assert await world.status() is RunStatus.RUNNING
    await worker.deliver(await worker.next())
    run = await world.run()
    assert (run.status, run.attempts.lost) == (RunStatus.SUCCEEDED, 0)


async def test_step_that_makes_call_after_call_is_ended_all_the_same(world: ExecutorWorld) -> None:
    calls = count()

    async def record_first(method: str, *_: Any, **__: Any) -> None:
        if method == "commit" and worker.pile.empty() and got:
            entry = Entry(key=f"call#{next(calls)}")
            name = (RUN, got[0].execution.execution_id, got[0].token)
            executor.write_journal(TENANT, NewEntries(*name, [entry]), answers.append)
            await turns(20)

    answers: list[JournalAnswer | Exception] = []
    got: list[Assignment] = []
    store = Rigged(world.store, record_first)
    executor, worker = await world.serving(store=store)
    await world.start(executor, chain("a"))
    got.append(await worker.next())
    store.calls.clear()
    assert (await executor.send(TENANT, RUN, Cancel())).status is ReplyStatus.ACCEPTED
    # The first entry overtook the first commit; the second one waited, and found the lease lost.
    assert (store.calls["commit"], store.calls["write_journal"]) == (2, 1)
    await until(lambda: len(answers) == 2)
    alive = [one.live for one in answers if isinstance(one, JournalAnswer)]
    assert alive == [True, False]


async def test_entries_on_which_a_store_breaks_are_refused_and_not_sent_again(
    world: ExecutorWorld,
) -> None:
    async def breaks(method: str, *_: Any, **__: Any) -> None:
        if method == "write_journal":
            raise AttributeError("write_journal")

    executor, worker = await world.serving(store=Rigged(world.store, breaks))
    await world.start(executor, chain("a"))
    got = await worker.next()
    answers: list[JournalAnswer | Exception] = []
    new = NewEntries(RUN, got.execution.execution_id, got.token, [Entry(key="k")])
    executor.write_journal(TENANT, new, answers.append)
    await until(lambda: len(answers) == 1)
    (answer,) = answers
    assert isinstance(answer, JournalAnswer)
    (refused,) = answer.entries
    assert isinstance(refused, Failure)
    assert (answer.live, refused.kind, refused.retryable) == (True, "INTERNAL", False)
