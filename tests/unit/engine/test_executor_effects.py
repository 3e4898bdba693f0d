"""The executor's part in effects: reconnects of a worker that began."""

from __future__ import annotations

import pytest

from stepwell.core.loop.occurrences import Begin
from stepwell.core.port import Assignment, ExecutionQuery
from stepwell.core.records.model import Execution, TaskSpec
from stepwell.core.records.states import Effect, ExecutionStatus, RunStatus
from stepwell.engine.executor import Heartbeat, HeldLease
from tests.unit.engine.executor_world import RUN, TENANT, ExecutorWorld, FakeWorker

CHARGE = TaskSpec(task_id="charge", effect=Effect.AT_MOST_ONCE)


async def begun(world: ExecutorWorld, spec: TaskSpec) -> tuple[FakeWorker, Assignment]:
    executor, worker = await world.serving()
    await world.start(executor, [spec])
    got = await worker.next()
    begin = Begin(execution_id=got.execution.execution_id, token=got.token)
    assert (await executor.deliver(TENANT, RUN, begin)).status == "ACCEPTED"
    page = await world.store.page(ExecutionQuery(tenant_id=TENANT, run_id=RUN))
    assert page.items[0].begun, "a begin is answered after its commit"
    return worker, got


async def execution(world: ExecutorWorld) -> Execution:
    page = await world.store.page(ExecutionQuery(tenant_id=TENANT, run_id=RUN))
    return page.items[0]


def held(got: Assignment) -> HeldLease:
    return HeldLease(run_id=RUN, execution_id=got.execution.execution_id, token=got.token)


async def test_a_worker_that_does_not_list_what_it_began_leaves_it_unknown(
    world: ExecutorWorld,
) -> None:
    worker, _ = await begun(world, CHARGE)
    again = FakeWorker(worker.executor)  # The same instance.
    await again.attach()
    await worker.executor.drain()
    assert (await execution(world)).status is ExecutionStatus.UNKNOWN_OUTCOME
    assert again.pile.empty()


@pytest.mark.parametrize("instance_id", ["one", "two"])
async def test_an_unknown_outcome_counts_as_held(world: ExecutorWorld, instance_id: str) -> None:
    worker, got = await begun(world, CHARGE)
    await FakeWorker(worker.executor, instance_id="two").attach(0)
    await worker.executor.drain()
    assert (await execution(world)).status is ExecutionStatus.UNKNOWN_OUTCOME

    again = FakeWorker(worker.executor, instance_id=instance_id)
    assert await again.attach(0, [held(got)]) == [True]
    beat = Heartbeat(run_id=RUN, execution_id=got.execution.execution_id, token=got.token)
    assert await worker.executor.heartbeat(TENANT, [beat]) == [True]
    assert (await again.deliver(got)).status == "ACCEPTED"
    assert await world.status() is RunStatus.SUCCEEDED
    assert await worker.executor.heartbeat(TENANT, [beat]) == [False]
