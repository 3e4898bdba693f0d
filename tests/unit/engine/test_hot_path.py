"""Costs of steps, in counts: these don't depend on the machine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from msgspec import json

from stepwell.core.loop.children import ChildEnd
from stepwell.core.loop.occurrences import (
    AwaitChild,
    AwaitSignal,
    Completed,
    Released,
    SendSignal,
    Suspended,
    SuspendedCall,
)
from stepwell.core.loop.transition import Reply
from stepwell.core.port import Assignment
from stepwell.core.records.journal import Entry
from stepwell.core.records.journal_answers import JournalAnswer, Kept
from stepwell.core.records.model import Payload, TaskSpec
from stepwell.engine.journal_writer import NewEntries
from stepwell_testkit.runtime import ManualRuntime
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    delivery,
    executor_world,
)

RUNS = 16
COSTS = {
    "task committer": 1,
    "store commit": 1,
}
"""All that it takes to commit what came for so many runs together, and to lease their next steps."""
CHAIN = (TaskSpec(task_id="a"), TaskSpec(task_id="b", depends_on=("a",)))
IDS = [f"00000000-0000-4000-8000-{number:012}" for number in range(RUNS)]


@pytest.fixture
async def world() -> AsyncIterator[ExecutorWorld]:
    async with executor_world() as world:
        yield world


class Costs(Counter[str]):
    """Counts the tasks and futures that are made, and the calls of the store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        spawn, create_future = ManualRuntime.spawn, asyncio.BaseEventLoop.create_future

        def spawned(runtime: ManualRuntime, work: Coroutine[Any, Any, Any], *, name: str) -> Any:
            self[f"task {name}"] += 1
            return spawn(runtime, work, name=name)

        def created(loop: asyncio.BaseEventLoop) -> Any:
            self["future"] += 1
            return create_future(loop)

        monkeypatch.setattr(ManualRuntime, "spawn", spawned)
        monkeypatch.setattr(asyncio.BaseEventLoop, "create_future", created)

    async def call(self, method: str, *_: Any, **__: Any) -> None:
        self[f"store {method}"] += 1


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Costs:
    return Costs(monkeypatch)


@pytest.fixture
async def worker(world: ExecutorWorld, costs: Costs) -> FakeWorker:
    return FakeWorker(world.executor(Rigged(world.store, costs.call), poll_ms=600_000))


async def leased(world: ExecutorWorld, worker: FakeWorker) -> list[Assignment]:
    """Start all runs, and return their first steps."""
    for run_id in IDS:
        await world.start(worker.executor, CHAIN, run_id=run_id)
    got = [await worker.next() for _ in IDS]
    await worker.executor.quiet()
    await _rest()  # A claim for the worker's free places may have begun.
    return got


class Answers(list[Any]):
    """Notes answers until each run has one."""

    def __init__(self) -> None:
        super().__init__()
        self.all = asyncio.Event()

    def __call__(self, answer: object) -> None:
        self.append(answer)
        if len(self) == RUNS:
            self.all.set()


async def test_outcomes_that_come_together_cost_as_much_as_one(
    world: ExecutorWorld, costs: Costs, worker: FakeWorker
) -> None:
    await worker.attach(credits=2 * RUNS)
    got, replies = await leased(world, worker), Answers()
    costs.clear()
    for one in got:
        worker.executor.pass_on(TENANT, one.run.run_id, delivery(one), replies)
    await replies.all.wait()
    assert costs == {**COSTS, "future": 1}, "the one future is this test's own"
    assert replies == [Reply()] * RUNS
    assert {(await worker.next()).execution.task_id for _ in IDS} == {"b"}


async def test_starts_that_come_together_cost_as_much_as_one(
    world: ExecutorWorld, costs: Costs, worker: FakeWorker
) -> None:
    await worker.attach(credits=RUNS)
    costs.clear()
    await asyncio.gather(*(world.start(worker.executor, CHAIN, run_id=run_id) for run_id in IDS))
    del costs["future"], costs["store claim"]  # The callers' futures; the claim for the new worker.
    assert costs == COSTS
    assert {(await worker.next()).execution.task_id for _ in IDS} == {"a"}


async def test_step_that_no_worker_is_free_for_is_claimed_once_one_is(
    world: ExecutorWorld, costs: Costs, worker: FakeWorker
) -> None:
    await worker.attach(credits=0)
    await _rest()
    costs.clear()
    for run_id in IDS:
        await world.start(worker.executor, CHAIN, run_id=run_id)
    await _rest()
    assert costs["store claim"] == 0
    worker.credit()
    assert (await worker.next()).execution.task_id == "a"
    assert costs["store claim"] == 1


async def _rest() -> None:
    """Let all that is ready to run come to its end."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_entries_that_come_together_cost_as_much_as_one(
    world: ExecutorWorld, costs: Costs, worker: FakeWorker
) -> None:
    await worker.attach(credits=RUNS)
    got, answers = await leased(world, worker), Answers()
    costs.clear()
    for one in got:
        name = (one.run.run_id, one.execution.execution_id, one.token)
        worker.executor.write_journal(TENANT, NewEntries(*name, [Entry(key="k")]), answers)
    await answers.all.wait()
    assert costs == {"task recorder": 1, "store write_journal": 1, "future": 1}, (
        "the future is this test's"
    )
    assert answers == [JournalAnswer(live=True, entries=[Kept(accepted=True)])] * RUNS


async def test_step_without_entries_reads_no_journal(
    world: ExecutorWorld, costs: Costs, worker: FakeWorker
) -> None:
    await worker.attach(credits=RUNS)
    await world.start(worker.executor, CHAIN)
    first = await worker.next()
    await worker.executor.quiet()
    costs.clear()
    await worker.deliver(first, Released())
    assert (await worker.next()).journal is None
    assert (costs["store page"], costs["store write_journal"]) == (0, 0)


async def test_signal_to_a_suspended_step_costs_one_commit_and_one_read(
    world: ExecutorWorld, costs: Costs, worker: FakeWorker
) -> None:
    await worker.attach(credits=RUNS)
    await world.start(worker.executor, CHAIN)
    call = SuspendedCall(call="k", wait=AwaitSignal(name="go"))
    await worker.deliver(await worker.next(), Suspended(waits=(call,)))
    await _rest()
    costs.clear()
    await worker.executor.send(TENANT, RUN, SendSignal(name="go"))
    again = await worker.next()
    await _rest()
    assert again.journal is not None
    assert [held.entry.key for held in again.journal.entries] == ["k"]
    assert _calls(costs) == {"commit": 1, "page": 1}


async def test_child_run_that_this_replica_has_in_memory_is_read_nowhere(
    world: ExecutorWorld, costs: Costs, worker: FakeWorker
) -> None:
    await worker.attach(credits=RUNS)
    await world.start(worker.executor, CHAIN)
    parent = await worker.next()
    await _rest()
    costs.clear()
    answers = Answers()
    child = SuspendedCall(call="kid", wait=AwaitChild(tasks=(TaskSpec(task_id="work"),)))
    execution = parent.execution.execution_id
    opened = NewEntries(RUN, execution, parent.token, (), opens=(child,), open_number=1)
    worker.executor.write_journal(TENANT, opened, answers)
    await worker.deliver(await worker.next(), Completed(result=Payload(data=b"42")))
    _, ended = await worker.ended_calls.get()
    await _rest()
    assert ended.value is not None
    assert json.decode(ended.value.data, type=ChildEnd).tasks == {"work": Payload(data=b"42")}
    assert set(_calls(costs)) == {"commit"}


def _calls(costs: Costs) -> dict[str, int]:
    """Return how often each method of the store was called."""
    return {name.removeprefix("store "): n for name, n in costs.items() if name.startswith("store")}
