"""Signals to child runs over an executor: each is taken once, whatever stops in between."""

from __future__ import annotations

import pytest

from stepwell.core.loop.occurrences import AwaitChild, SignalChild, SuspendedCall
from stepwell.core.port import Assignment, JournalQuery
from stepwell.core.records.model import Payload, TaskSpec
from stepwell.engine.journal_writer import NewEntries
from stepwell_testkit.conformance.harness import turns
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    executor_world,
)
from tests.unit.engine.test_executor_children import children_of, undelivered

NOTE = SignalChild(child="kid", name="note", value=Payload(data=b"1"))
CALLS = (
    SuspendedCall(call="kid", wait=AwaitChild(tasks=(TaskSpec(task_id="work"),))),
    SuspendedCall(call="say", wait=NOTE),
)


async def opens(worker: FakeWorker, assignment: Assignment) -> None:
    """Open a call that starts a child and one that sends it a signal, as one message of a worker."""
    new = NewEntries(
        RUN,
        assignment.execution.execution_id,
        assignment.token,
        (),
        opens=CALLS,
        open_number=1,
    )
    worker.executor.write_journal(TENANT, new, lambda _: None)
    await turns(200)


@pytest.mark.parametrize("commits", range(1, 7))
async def test_a_signal_is_taken_once_if_a_replica_dies_while_it_is_delivered(commits: int) -> None:
    """Another replica takes over after this many commits, of which the parent's with both letters is the first."""
    async with executor_world() as world:
        store, worker = world.mortal()
        executor = worker.executor
        await worker.attach(1)
        await world.start(executor, chain("a"))
        assignment = await worker.next()
        await executor.drain()
        store.left = commits
        await opens(worker, assignment)
        other = (await world.succeed(executor)).executor
        await is_delivered(world)
        await other.drain()
        [child] = await children_of(world)
        assert (child.signals.kept, child.signals.taken) == (1, {RUN: 2})
        query = JournalQuery(tenant_id=TENANT, run_id=RUN, journal="task:a@1")
        entries = [one.entry for one in (await world.store.page(query)).items]
        assert [(one.key, one.failure.kind) for one in entries] == [("say", "")]


async def is_delivered(world: ExecutorWorld) -> None:
    for _ in range(100):
        if not await undelivered(world, RUN):
            return
        world.pass_time(1_000)
        await turns(50)
