"""A run that waits for a worker: WORKER or CAPACITY, by who is connected, and at which cost."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest

from stepwell.cli.view import describe
from stepwell.core.loop.occurrences import LeaseExpired, Start
from stepwell.core.port import Page, Presence, Query
from stepwell.core.records.model import Run, RunSpec, TaskSpec
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import BlockedKind, StepKind
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell_client import Run as RunRecord
from stepwell_client.internal import read_record
from stepwell_drivers.memory.state import State
from stepwell_drivers.memory.store import MemoryStore
from stepwell_testkit.runtime import ManualRuntime
from tests.unit.core.loop_world import AT_ONCE
from tests.unit.engine.executor_world import FakeWorker

R = TypeVar("R")


class CountingStore(MemoryStore):
    loads = 0
    pages = 0

    async def page(self, query: Query[R]) -> Page[R]:
        self.pages += 1
        return await super().page(query)

    async def load(self, *args: object, **kwargs: object):
        self.loads += 1
        return await super().load(*args, **kwargs)  # pyright: ignore[reportArgumentType] - passed on


class World:
    """A replica that has started a run with one ready task of the role `writer`."""

    def __init__(self) -> None:
        runtime = self.runtime = ManualRuntime()
        self.store = CountingStore(State(runtime))
        self.executor = Executor(self.store, runtime, ExecutorConfig())
        self.presenter = RunPresenter(self.executor, runtime)

    async def start(self, blocked_on: BlockedKind = BlockedKind.WORKER) -> Run:
        spec = RunSpec(tenant_id="t", run_id="r", queue="q", max_parallel=1, max_iterations=1)
        plan = (TaskSpec(task_id="a", role="writer", retry=AT_ONCE),)
        reply = await self.executor.send("t", "r", Start(spec=spec, plan=plan))
        assert reply.run is not None
        assert reply.run.blocked_on is blocked_on
        self.store.loads = 0
        return reply.run

    async def connect(self, role: str) -> None:
        worker = Presence(
            tenant_id="t",
            worker_id="w",
            instance_id="i",
            queues=("q",),
            tasks=(TaskPattern(type="*", role=role),),
            kinds=(StepKind.TASK,),
        )
        await self.store.put_presence([worker], ttl_ms=60_000)


@pytest.mark.parametrize(
    ("role", "kind"), [("writer", BlockedKind.CAPACITY), ("reader", BlockedKind.WORKER)]
)
async def test_run_in_memory_is_presented_without_a_load(role: str, kind: BlockedKind) -> None:
    world = World()
    run = await world.start()
    await world.connect(role)

    assert (await world.presenter.refine(run)).blocked_on is kind
    assert world.store.loads == 0


async def test_worker_of_this_replica_is_known_without_asking_the_store() -> None:
    world = World()
    run = await world.start()
    worker = FakeWorker(world.executor, tenant_id="t", queue="q")
    await worker.attach(credits=0)
    world.store.pages = 0

    assert (await world.presenter.refine(run)).blocked_on is BlockedKind.CAPACITY
    assert world.store.pages == 0


async def test_workers_of_others_are_read_once_for_starts_that_come_together() -> None:
    world = World()
    run = await world.start()
    shown = await asyncio.gather(*(world.presenter.refine(run) for _ in range(10)))
    assert {one.blocked_on for one in shown} == {BlockedKind.WORKER}
    assert world.store.pages == 1

    await world.connect("writer")
    world.runtime.advance(1_000)
    assert (await world.presenter.refine(run)).blocked_on is BlockedKind.CAPACITY
    assert world.store.pages == 2


async def test_run_of_another_replica_is_loaded_once_per_version() -> None:
    world = World()
    run = await world.start()
    await world.connect("writer")
    world.executor.forget("t", "r")

    for _ in range(2):
        assert (await world.presenter.refine(run)).blocked_on is BlockedKind.CAPACITY
    assert world.store.loads == 1


async def test_run_without_workers_is_presented_as_it_is() -> None:
    world = World()
    run = await world.start()

    assert await world.presenter.refine(run) is run
    assert world.store.loads == 0


@pytest.mark.parametrize("in_memory", [True, False])
async def test_suspect_step_is_shown_to_wait_for_an_empty_worker(in_memory: bool) -> None:
    world = World()
    for name in ("one", "two"):
        await FakeWorker(world.executor, worker_id=name, tenant_id="t", queue="q").attach()
    await world.start(BlockedKind.NONE)
    for number in (1, 2):
        state = world.executor.held("t", "r")
        assert state is not None
        row = state.open[f"task:a#{number}"]
        expired = LeaseExpired(execution_id=row.execution.execution_id, token=row.token)
        await world.executor._runs.post(("t", "r"), expired)
    run = await world.store.get_run("t", "r")
    assert run is not None
    if not in_memory:
        world.executor.forget("t", "r")
    message = await world.presenter.message(run)
    assert message.waiting_for.alone
    assert "that holds nothing else" in describe.blocked(
        read_record(message, RunRecord), exact=True
    )
