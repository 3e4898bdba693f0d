"""Steers over an executor: a start is a signal to the run that works, or a run; never both, and never neither."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.app.threads import delete_thread
from stepwell.core.loop.occurrences import AwaitSignal, SendSignal, SuspendedCall
from stepwell.core.loop.transition import ReplyStatus
from stepwell.core.port import Assignment, JournalQuery
from stepwell.core.records import limits
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.model import Payload
from stepwell.core.records.states import OnBusy, RunStatus
from stepwell.engine.journal_writer import NewEntries
from stepwell_testkit.conformance.harness import turns
from tests.unit.engine.executor_world import (
    TENANT,
    ExecutorWorld,
    FakeWorker,
    executor_world,
)
from tests.unit.engine.test_executor_threads import (
    THREAD,
    join,
    run_id,
    thread,
    undelivered,
)

STEER = OnBusy.STEER


async def receive(worker: FakeWorker, assignment: Assignment, call: str) -> None:
    """Open a call that waits for a steer."""
    new = NewEntries(
        assignment.run.run_id,
        assignment.execution.execution_id,
        assignment.token,
        (),
        opens=(SuspendedCall(call=call, wait=AwaitSignal(name="steer")),),
        open_number=int(call),
    )
    worker.executor.write_journal(TENANT, new, lambda _: None)
    await turns(200)


async def values(world: ExecutorWorld, number: int, journal: str) -> list[Any]:
    query = JournalQuery(tenant_id=TENANT, run_id=run_id(number), journal=journal)
    entries = [one.entry for one in (await world.store.page(query)).items]
    return [json.loads(one.value.data) for one in entries if one.value is not None]


async def received(world: ExecutorWorld, number: int) -> list[str]:
    """Return the goals that the calls of a run received."""
    return [value["goal"] for value in await values(world, number, "task:a@1")]


async def leftovers(world: ExecutorWorld) -> int:
    """Return the number of starts that the thread still keeps."""
    query = JournalQuery(tenant_id=THREAD[0], run_id=THREAD[1], journal="steers")
    return len((await world.store.page(query)).items)


async def test_a_start_that_steers_is_a_signal_with_goal_and_input() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        assert (await join(executor, 1, STEER)).steered == ""
        assignment = await worker.next()
        given = Payload(data=b'{"city": "Rome"}')
        steered = await join(executor, 2, STEER, goal="and Rome", given=given)
        assert (steered.status, steered.steered) == (ReplyStatus.ACCEPTED, run_id(1))
        expected = {"goal": "and Rome", "input": {"city": "Rome"}}
        assert await values(world, 1, "signals") == [expected]
        await receive(worker, assignment, "1")
        await worker.deliver(assignment)
        await executor.drain()
        assert await received(world, 1) == ["and Rome"]
        assert await world.store.get_run(TENANT, run_id(2)) is None
        assert (await thread(world)).thread.working == ""
        assert await leftovers(world) == 0
        assert worker.pile.empty()


async def test_steers_that_no_call_received_become_runs_in_the_order_of_starts() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        assignment = await worker.next()
        # A signal of the same name from outside is none of the thread's.
        outside = SendSignal(name="steer", value=Payload(data=b'{"goal": "outside"}'))
        await executor.send(TENANT, run_id(1), outside)
        await join(executor, 2, STEER, goal="two")
        await join(executor, 3, STEER, goal="three")
        await join(executor, 4, goal="four")
        await join(executor, 5, STEER, goal="five")
        await receive(worker, assignment, "1")
        await receive(worker, assignment, "2")
        await worker.deliver(assignment)
        assert await received(world, 1) == ["outside", "two"]
        for number in (3, 4, 5):
            following = await worker.next()
            assert following.run.run_id == run_id(number)
            await worker.deliver(following)
        await executor.drain()
        assert await world.store.get_run(TENANT, run_id(2)) is None
        assert await leftovers(world) == 0


async def test_a_repeated_steer_changes_nothing_also_after_the_end_of_its_run() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        assignment = await worker.next()
        await join(executor, 2, STEER)
        again = await join(executor, 2, STEER)
        assert (again.status, again.steered) == (ReplyStatus.UNCHANGED, run_id(1))
        await receive(worker, assignment, "1")
        await worker.deliver(assignment)
        await turns(200)
        await join(executor, 3)
        later = await join(executor, 2, STEER)
        assert (later.status, later.steered) == (ReplyStatus.UNCHANGED, run_id(1))
        other = await join(executor, 2, STEER, request_fingerprint="other")
        assert other.reason == "REQUEST_ID_REUSED"
        assert await values(world, 3, "signals") == []


async def test_a_steer_that_the_run_has_no_room_for_becomes_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SIGNALS_MAX", 1)
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        assignment = await worker.next()
        await join(executor, 2, STEER)
        await join(executor, 3, STEER)
        assert (await world.run(run_id(3))).waits_for_thread
        await receive(worker, assignment, "1")
        await worker.deliver(assignment)
        assert (await worker.next()).run.run_id == run_id(3)


async def test_a_steer_still_on_its_way_when_the_run_ends_becomes_a_run() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        assignment = await worker.next()
        _, dead = world.mortal(commits=1)
        assert (await join(dead.executor, 2, STEER)).steered == run_id(1)
        assert await values(world, 1, "signals") == []
        await worker.deliver(assignment)
        assert (await worker.next()).run.run_id == run_id(2)
        assert await leftovers(world) == 0


async def test_a_thread_deleted_by_force_starts_none_of_its_steers() -> None:
    async with executor_world() as world:
        executor, worker = await world.serving(credits=9)
        await join(executor, 1)
        await worker.next()
        await join(executor, 2, STEER)
        await join(executor, 3)
        assert await delete_thread(executor, TENANT, "t1", force=True)
        await executor.drain()
        assert worker.pile.empty()
        assert await world.store.get_run(*THREAD) is None
        for number in (1, 2, 3):
            assert await world.store.get_run(TENANT, run_id(number)) is None


async def test_too_large_or_too_many_steers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "THREAD_STEERS_MAX", 1)
    async with executor_world() as world:
        executor, _ = await world.serving(credits=9)
        await join(executor, 1)
        large = await join(executor, 2, STEER, goal="x" * limits.THREAD_STEER_BYTES_MAX)
        assert large.reason == "THREAD_START_TOO_LARGE"
        await join(executor, 2, STEER)
        assert (await join(executor, 3, STEER)).reason == "THREAD_FULL"


@pytest.mark.parametrize("commits", range(1, 16))
async def test_a_steer_is_received_or_run_once_if_a_replica_dies_between_two_commits(
    commits: int,
) -> None:
    """Another replica takes over after this many commits of the first. The run that works receives one steer of two."""
    async with executor_world() as world:
        _, worker = world.mortal(commits)
        executor = worker.executor
        started = 0
        try:
            await worker.attach(9)
            for number in (1, 2, 3):
                await join(executor, number, STEER, goal=str(number))
                started = number
            await _work(worker)
        except StoreUnavailable:
            pass
        successor = await world.succeed(executor)
        other = successor.executor
        await successor.attach(9)
        for number in range(started + 1, 4):
            # Where the first run has ended, or was never there, this one works itself.
            await join(other, number, STEER, goal=str(number))
        for _ in range(100):
            world.pass_time(1_000)
            await _work(successor)
            successor.credit()
            if (await thread(world)).thread.working == "":
                break
        await other.drain()
        runs = [number for number in (1, 2, 3) if await world.store.get_run(TENANT, run_id(number))]
        for number in runs:
            assert await world.status(run_id(number)) is RunStatus.SUCCEEDED
            assert await undelivered(world, TENANT, run_id(number)) == 0
        taken = [int(goal) for number in runs for goal in await received(world, number)]
        assert sorted([*runs, *taken]) == [1, 2, 3]
        assert taken == [2]
        assert await undelivered(world, *THREAD) == 0
        assert await leftovers(world) == 0


async def _work(worker: FakeWorker) -> None:
    """Do what comes until nothing comes any more; the first run receives one steer."""
    for _ in range(4):
        await turns(100)
        while not worker.pile.empty():
            assignment = worker.pile.get_nowait()
            if assignment.run.run_id == run_id(1):
                await receive(worker, assignment, "1")
            await worker.deliver(assignment)
