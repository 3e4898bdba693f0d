"""The executor's part in effects: reconnects of a worker that began, and keys that other runs completed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepwell.core.loop.signals import Begin, Completed, Reconciled
from stepwell.core.port import Assignment, ExecutionQuery, FoundResult
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.limits import DEDUPLICATED_PER_COMMIT_MAX
from stepwell.core.records.model import Execution, Payload, TaskSpec
from stepwell.core.records.states import Effect, ExecutionStatus, Finding, RunStatus, StepKind
from stepwell.engine.executor import Heartbeat, HeldLease
from stepwell_testkit.conformance.ask import data_of
from stepwell_testkit.proxy import StoreProxy
from tests.unit.executor_world import RUN, TENANT, Counting, ExecutorWorld, FakeWorker

OTHER = "00000000-0000-4000-8000-000000000002"
RECONCILED = TaskSpec(task_id="charge", effect=Effect.AT_MOST_ONCE, reconcile=True)
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


async def test_a_reconcile_step_is_assigned_with_all_that_it_needs(world: ExecutorWorld) -> None:
    worker, got = await begun(world, RECONCILED)
    newer = FakeWorker(worker.executor, instance_id="two")
    await newer.attach()
    look = await newer.next()
    assert look.execution.kind is StepKind.RECONCILE
    assert look.task == RECONCILED
    assert look.unknown_execution_id == got.execution.execution_id
    assert look.idempotency_key == got.idempotency_key == f"{RUN}/charge"
    await newer.deliver(look, Reconciled(finding=Finding.DONE, result=Payload(data=b"1")))
    (stored,) = await world.store.read_payloads(TENANT, RUN, [got.execution.execution_id])
    assert stored.payload == Payload(data=b"1")


# --- keys ------------------------------------------------------------------------------------------------


class Unsearchable(StoreProxy):
    """A store that can't be asked for keys."""

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        raise StoreUnavailable("not now")


def keyed(task_id: str, key: str) -> TaskSpec:
    return TaskSpec(task_id=task_id, idempotency_key=key)


async def test_a_store_that_can_not_be_asked_holds_nothing_up(world: ExecutorWorld) -> None:
    executor = world.executor(Unsearchable(world.store))
    worker = FakeWorker(executor)
    await worker.attach()
    await world.start(executor, [keyed("a", "k")])
    await worker.do_all(world.store)
    assert await world.status() is RunStatus.SUCCEEDED


async def test_a_run_without_keys_asks_for_none(world: ExecutorWorld) -> None:
    store = Counting(world.store)
    executor, worker = await world.serving(store=store)
    await world.start(executor, [TaskSpec(task_id="a"), TaskSpec(task_id="b")])
    await worker.do_all(world.store)
    assert store.calls["find_keyed"] == 0


async def test_a_run_of_which_much_is_known_ends_without_a_worker(world: ExecutorWorld) -> None:
    plan = [keyed(f"t{n}", f"k{n}") for n in range(DEDUPLICATED_PER_COMMIT_MAX + 5)]
    executor = world.executor()
    worker = FakeWorker(executor)
    await worker.attach(len(plan))
    await world.start(executor, plan, pipeline_id="p", max_parallel=64)
    for _ in plan:
        got = await worker.next()
        result = Completed(result=Payload(data=got.execution.task_id.encode()))
        await worker.deliver(got, result)
    assert await world.status() is RunStatus.SUCCEEDED
    assert worker.session is not None
    await executor.detach(worker.session)

    await world.start(executor, plan, run_id=OTHER, pipeline_id="p")
    await executor.drain()
    assert await world.status(OTHER) is RunStatus.SUCCEEDED
    stored = await world.store.read_payloads(TENANT, OTHER, [f"task:{t.task_id}#1" for t in plan])
    assert [data_of(one) for one in stored] == [t.task_id.encode() for t in plan]


async def test_a_run_that_was_deleted_is_not_taken_from(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=4)
    await world.start(executor, [keyed("a", "k")], pipeline_id="p")
    await worker.do_all(world.store)
    run = await world.run()
    assert await world.store.delete_run(TENANT, RUN, version=run.version)
    await world.start(executor, [keyed("a", "k")], run_id=OTHER, pipeline_id="p")
    got = await worker.next()
    assert got.run.spec.run_id == OTHER
