"""Defects that the simulator has met, each as small as it can be. Two replicas, one store, no chance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from stepwell.core.loop.signals import (
    Answer,
    Begin,
    Completed,
    Delivery,
    Failed,
    NeedsInput,
    Planned,
    Reply,
    ReplyStatus,
    Result,
    Start,
)
from stepwell.core.port import Assignment, Loaded, Presence, Store
from stepwell.core.records.model import Failure, Payload, RetryPolicy, RunSpec, TaskSpec
from stepwell.core.records.states import Effect, RunStatus, StepKind
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.store.opener import open_store
from stepwell_testkit.conformance.harness import soon, turns
from stepwell_testkit.faults import Faults, FaultyStore
from stepwell_testkit.proxy import StoreProxy
from stepwell_testkit.runtime import ManualRuntime
from tests.simulation.simulator.audit import audit
from tests.simulation.simulator.history import History
from tests.simulation.simulator.ledger import Ledger, WitnessedStore

KEY = ("tenant", "run")


class Port:
    """A connected worker that only keeps its assignments."""

    presence = Presence(
        tenant_id="tenant",
        worker_id="worker",
        instance_id="worker-1",
        queues=("default",),
        kinds=tuple(StepKind),
    )
    stages = ()

    def __init__(self) -> None:
        self.assigned: asyncio.Queue[Assignment] = asyncio.Queue()

    def assign(self, assignment: Assignment) -> None:
        self.assigned.put_nowait(assignment)

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None: ...

    def replaced(self) -> None: ...


@pytest.fixture
def runtime() -> ManualRuntime:
    return ManualRuntime("found")


@pytest.fixture
async def store(runtime: ManualRuntime) -> AsyncIterator[Store]:
    opened = await open_store("memory://", runtime=runtime)
    yield opened
    await opened.close()


def start(*tasks: TaskSpec) -> Start:
    return Start(spec=RunSpec(tenant_id="tenant", run_id="run"), plan=tasks)


async def deliver(executor: Executor, delivery: Delivery | Begin) -> Reply:
    async with asyncio.timeout(5):
        return await executor.deliver(*KEY, delivery)


async def test_S8_stale_replica_reloads_before_it_answers_lease_lost(
    store: Store, runtime: ManualRuntime
) -> None:
    behind, ahead, port = Executor(store, runtime), Executor(store, runtime), Port()
    await behind.send(*KEY, start(TaskSpec(task_id="t", effect=Effect.AT_MOST_ONCE)))
    session, _ = await ahead.attach(port, [])
    ahead.credit(session, 1)
    ahead.start()
    assignment = await asyncio.wait_for(port.assigned.get(), 5)
    execution_id, token = assignment.execution.execution_id, assignment.token

    begun = await deliver(behind, Begin(execution_id=execution_id, token=token))
    again = await deliver(ahead, Begin(execution_id=execution_id, token=token))
    done = await deliver(
        behind, Delivery(execution_id=execution_id, token=token, result=Completed())
    )

    assert [begun.status, again.status, done.status] == [
        ReplyStatus.ACCEPTED,
        ReplyStatus.UNCHANGED,
        ReplyStatus.ACCEPTED,
    ]
    await ahead.close()


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
    store: Store, runtime: ManualRuntime
) -> None:
    slow = SlowLoads(store)
    behind, ahead, port = Executor(slow, runtime), Executor(store, runtime), Port()
    await behind.send(*KEY, start(TaskSpec(task_id="s"), TaskSpec(task_id="t")))
    session, _ = await ahead.attach(port, [])
    ahead.credit(session, 1)
    ahead.start()
    await asyncio.wait_for(port.assigned.get(), 5)
    # An outcome without a lease: the replica reads the store before it answers, and sees that lease.
    nobodys = Delivery(execution_id="task:t#1", token="nobody's", result=Completed())
    stale = behind.deliver(*KEY, nobodys)
    assert await soon(lambda: slow.asked == 1)

    # Another is granted after the store was asked, and its outcome comes before the store has answered.
    ahead.credit(session, 1)
    assigned = await asyncio.wait_for(port.assigned.get(), 5)
    name, token = assigned.execution.execution_id, assigned.token
    done = behind.deliver(*KEY, Delivery(execution_id=name, token=token, result=Completed()))
    slow.answered.set()

    assert (await asyncio.wait_for(stale, 5)).status is ReplyStatus.LEASE_LOST
    assert (await asyncio.wait_for(done, 5)).status is ReplyStatus.ACCEPTED
    await ahead.close()


async def test_L3_stale_replica_leases_a_step_that_another_made_ready(
    store: Store, runtime: ManualRuntime
) -> None:
    behind, ahead, port = Executor(store, runtime), Executor(store, runtime), Port()
    await behind.send(*KEY, start(TaskSpec(task_id="a"), TaskSpec(task_id="b", depends_on=("a",))))
    session, _ = await ahead.attach(port, [])
    ahead.credit(session, 1)
    ahead.start()
    first = await asyncio.wait_for(port.assigned.get(), 5)
    name = first.execution.execution_id
    await deliver(ahead, Delivery(execution_id=name, token=first.token, result=Completed()))
    await ahead.close()

    session, _ = await behind.attach(port, [])
    behind.credit(session, 1)
    behind.start()
    second = await asyncio.wait_for(port.assigned.get(), 5)

    assert second.execution.task_id == "b"
    await behind.close()


async def test_L3_lease_that_cannot_be_filled_keeps_the_credit(
    store: Store, runtime: ManualRuntime
) -> None:
    refuses = Faults(refuse=1.0, methods=frozenset({"read_payloads"}))
    faulty = FaultyStore(store, runtime, refuses)
    config = ExecutorConfig(payload_cache_bytes_max=0, poll_ms=10, hold_ms=0)
    executor, port = Executor(faulty, runtime, config), Port()
    await executor.send(*KEY, start(TaskSpec(task_id="a")))
    session, _ = await executor.attach(port, [])
    executor.credit(session, 1)
    executor.start()
    assert await soon(lambda: faulty.seen["read_payloads:refuse"] > 0)

    refused = faulty.seen["read_payloads:refuse"]
    await turns(20)
    assert faulty.seen["read_payloads:refuse"] == refused, "it tries again without a pause"

    faulty.faults = Faults()
    runtime.advance(20)
    assignment = await asyncio.wait_for(port.assigned.get(), 5)
    name, token = assignment.execution.execution_id, assignment.token
    await deliver(executor, Delivery(execution_id=name, token=token, result=Completed()))

    run = await store.get_run(*KEY)
    assert run is not None
    assert run.status is RunStatus.SUCCEEDED
    await executor.close()


async def test_lease_that_ends_in_its_own_commit_returns_the_credit(
    store: Store, runtime: ManualRuntime
) -> None:
    executor, port = Executor(store, runtime), Port()
    session, _ = await executor.attach(port, [])
    executor.credit(session, 1)
    once = RetryPolicy(max_attempts=1)
    await executor.send(*KEY, start(TaskSpec(task_id="a", retry=once), TaskSpec(task_id="b")))
    first = await asyncio.wait_for(port.assigned.get(), 5)

    # A lease for `b` and the failure of `a`, which fails the run, are decided together.
    executor.credit(session, 1)
    await executor._claims._claim()
    failed = Failed(failure=Failure(kind="x"))
    name, token = first.execution.execution_id, first.token
    reply = await deliver(executor, Delivery(execution_id=name, token=token, result=failed))

    run = await store.get_run(*KEY)
    assert run is not None
    assert reply.status is ReplyStatus.ACCEPTED
    assert run.status is RunStatus.FAILED
    await turns()
    assert session.credits == 1
    assert port.assigned.empty()


async def test_S18_task_done_in_the_batch_that_redefines_it_is_of_the_old_plan(
    store: Store, runtime: ManualRuntime
) -> None:
    def failed(error: Exception) -> None:
        raise error

    ledger = Ledger(History(lambda: 0.0), runtime.now_us, failed)
    executor, port = Executor(WitnessedStore(store, ledger, "r0"), runtime), Port()
    session, _ = await executor.attach(port, [])
    executor.credit(session, 10)
    executor.start()

    async def assigned() -> Assignment:
        return await asyncio.wait_for(port.assigned.get(), 5)

    def outcome(of: Assignment, result: Result) -> asyncio.Future[Reply]:
        name, token = of.execution.execution_id, of.token
        delivery = Delivery(execution_id=name, token=token, result=result, response=token)
        ledger.deliveries[token] = delivery
        return executor.deliver(*KEY, delivery)

    await executor.send(*KEY, start(TaskSpec(task_id="asks"), TaskSpec(task_id="done")))
    asks, done = await assigned(), await assigned()
    await outcome(asks, NeedsInput(prompt="go on?"))
    input_id = f"input:{asks.execution.execution_id}"
    await executor.send(*KEY, Answer(input_id=input_id, payload=Payload(), replan=True))
    plan = await assigned()
    version = ledger.model(KEY).version

    # Both come before either is decided: one turn decides them, the task's outcome first.
    anew = Planned(tasks=(TaskSpec(task_id="done", prompt="anew"),))
    together = [outcome(done, Completed()), outcome(plan, anew)]
    await asyncio.gather(*together)

    assert ledger.model(KEY).version == version + 1
    again = await assigned()
    assert again.execution.task_id == "done"
    await outcome(again, Completed())
    run = await store.get_run(*KEY)
    assert run is not None
    assert run.status is RunStatus.SUCCEEDED
    await audit(store, ledger)
    await executor.close()
