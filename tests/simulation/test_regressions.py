"""Defects that the simulator has met, each as small as it can be: at most two replicas, one store, no chance.

The replica that is `behind` has not started: no notification reaches it, so it decides on what it knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from stepwell.core.loop.occurrences import Begin, Completed, Delivery, Failed
from stepwell.core.loop.transition import ReplyStatus
from stepwell.core.port import Loaded, Store
from stepwell.core.records.model import Failure, RetryPolicy, TaskSpec
from stepwell.core.records.states import Effect, RunStatus
from stepwell.engine.executor import Executor
from stepwell_testkit.conformance.harness import soon, turns
from stepwell_testkit.faults import Faults, FaultyStore
from stepwell_testkit.proxy import StoreProxy
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    delivery,
    executor_world,
)


@pytest.fixture
async def world() -> AsyncIterator[ExecutorWorld]:
    async with executor_world() as world:
        yield world


async def test_S8_stale_replica_reloads_before_it_answers_lease_lost(world: ExecutorWorld) -> None:
    behind, ahead = Executor(world.store, world.runtime), world.executor()
    await world.start(behind, [TaskSpec(task_id="t", effect=Effect.AT_MOST_ONCE)])
    worker = FakeWorker(ahead)
    await worker.attach()
    assignment = await worker.next()
    begin = Begin(execution_id=assignment.execution.execution_id, token=assignment.token)

    begun = await behind.deliver(TENANT, RUN, begin)
    again = await ahead.deliver(TENANT, RUN, begin)
    done = await behind.deliver(TENANT, RUN, delivery(assignment))

    assert [begun.status, again.status, done.status] == ["ACCEPTED", "UNCHANGED", "ACCEPTED"]


class SlowLoads(StoreProxy):
    """Answers a load later, with the rows of the moment when it was asked."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.answered = asyncio.Event()
        self.asked = 0

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        loaded = await super().load(tenant_id, run_id, since=since)
        self.asked += 1
        await self.answered.wait()
        return loaded


async def test_S8_delivery_during_a_reload_is_decided_after_another_reload(
    world: ExecutorWorld,
) -> None:
    slow = SlowLoads(world.store)
    behind = Executor(slow, world.runtime)
    await world.start(behind, [TaskSpec(task_id="s"), TaskSpec(task_id="t")])
    worker = FakeWorker(world.executor())
    await worker.attach()
    await worker.next()
    # An outcome without a lease: the replica reads the store before it answers, and sees that lease.
    nobodys = Delivery(execution_id="task:t#1", token="nobody's", result=Completed())
    stale = behind.deliver(TENANT, RUN, nobodys)
    assert await soon(lambda: slow.asked == 1)

    # Another is granted after the store was asked, and its outcome comes before the store has answered.
    assert worker.session is not None
    worker.executor.credit(worker.session, 1)
    done = behind.deliver(TENANT, RUN, delivery(await worker.next()))
    slow.answered.set()

    assert (await stale).status is ReplyStatus.LEASE_LOST
    assert (await done).status is ReplyStatus.ACCEPTED


async def test_L3_stale_replica_leases_a_step_that_another_made_ready(world: ExecutorWorld) -> None:
    behind, ahead = Executor(world.store, world.runtime), world.executor()
    world.executors.append(behind)
    await world.start(behind, [TaskSpec(task_id="a"), TaskSpec(task_id="b", depends_on=("a",))])
    first = FakeWorker(ahead)
    await first.attach()
    await first.deliver(await first.next())
    await ahead.close()

    second = FakeWorker(behind)
    await second.attach()
    behind.start()

    assert (await second.next()).execution.task_id == "b"


async def test_L3_lease_that_cannot_be_filled_keeps_the_credit(world: ExecutorWorld) -> None:
    refuses = Faults(refuse=1.0, methods=frozenset({"read_payloads"}))
    faulty = FaultyStore(world.store, world.runtime, refuses)
    executor = world.executor(faulty, payload_cache_bytes_max=0, poll_ms=10, hold_ms=0)
    worker = FakeWorker(executor)
    await world.start(executor, [TaskSpec(task_id="a")])
    await worker.attach()
    assert await soon(lambda: faulty.seen["read_payloads:refuse"] > 0)

    refused = faulty.seen["read_payloads:refuse"]
    await turns(20)
    assert faulty.seen["read_payloads:refuse"] == refused, "it tries again without a pause"

    faulty.faults = Faults()
    world.runtime.advance(20)
    await worker.deliver(await worker.next())
    assert await world.status() is RunStatus.SUCCEEDED


async def test_lease_that_ends_in_its_own_commit_returns_the_credit(world: ExecutorWorld) -> None:
    executor = Executor(world.store, world.runtime)
    worker = FakeWorker(executor)
    await worker.attach()
    once = RetryPolicy(max_attempts=1)
    await world.start(executor, [TaskSpec(task_id="a", retry=once), TaskSpec(task_id="b")])
    first = await worker.next()
    assert worker.session is not None

    # A lease for `b` and the failure of `a`, which fails the run, are decided together.
    executor.credit(worker.session, 1)
    await executor._claims._claim()
    reply = await worker.deliver(first, Failed(failure=Failure(kind="x")))

    assert reply.status is ReplyStatus.ACCEPTED
    assert await world.status() is RunStatus.FAILED
    await turns()
    assert worker.session.credits == 1
    assert worker.pile.empty()
