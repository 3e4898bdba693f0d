"""An executor over a memory store whose time is moved by hand, and workers that do as they are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Completed, Delivery, Result, Start
from stepwell.core.loop.transition import Reply
from stepwell.core.port import Assignment, Presence, Store
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Run, RunSpec, TaskSpec
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import RunStatus, StepKind
from stepwell.core.records.threads import ThreadWrite
from stepwell.engine.executor import Executor, ExecutorConfig, HeldLease
from stepwell.engine.workers import WorkerConnection
from stepwell.store.opener import open_store
from stepwell_testkit.proxy import StoreProxy
from stepwell_testkit.runtime import ManualRuntime
from tests.support.patience import PATIENCE_S

TENANT = "tenant"
RUN = "00000000-0000-4000-8000-000000000001"


class Rigged(StoreProxy):
    """A store that counts its calls, and before each does what a test says."""

    def __init__(self, inner: Store, first: Callable[..., Awaitable[None]] | None = None) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()
        self._first = first

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        self.calls[method] += 1
        if self._first is not None:
            await self._first(method, *args, **kwargs)
        return await super().call(method, *args, **kwargs)


class Mortal(Rigged):
    """The store as a replica sees it that dies after a number of its commits: then all calls fail."""

    def __init__(self, inner: Store, commits: int) -> None:
        self.left = commits

        async def first(method: str, *_: Any, **__: Any) -> None:
            self.left -= method == "commit"
            if self.left < 0 and method not in ("subscribe", "close"):
                raise StoreUnavailable("it is down")

        super().__init__(inner, first)


class Slow(Rigged):
    """A store whose calls of one method wait until they are let go on."""

    def __init__(self, inner: Store, slow: str) -> None:
        self.waiting = 0
        self.go_on = asyncio.Event()

        async def first(method: str, *_: Any, **__: Any) -> None:
            if method == slow:
                self.waiting += 1
                await self.go_on.wait()

        super().__init__(inner, first)


class FakeWorker:
    """A worker that puts what it is handed on a pile."""

    def __init__(
        self,
        executor: Executor,
        *,
        tenant_id: str = TENANT,
        worker_id: str = "worker",
        instance_id: str = "one",
        queue: str = "default",
        tasks: tuple[TaskPattern, ...] = (),
        version: str = "",
        stages: tuple[StepKind, ...] = (),
    ) -> None:
        self.executor = executor
        self.presence = Presence(
            tenant_id=tenant_id,
            worker_id=worker_id,
            instance_id=instance_id,
            replica_id=executor.replica_id,
            queues=(queue,),
            tasks=tasks,
            version=version,
            kinds=tuple(StepKind),
        )
        self.stages = stages
        self.pile: asyncio.Queue[Assignment] = asyncio.Queue()
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()
        self.ended_calls: asyncio.Queue[tuple[str, Entry]] = asyncio.Queue()
        self.was_replaced = False
        self.session: WorkerConnection | None = None

    def assign(self, assignment: Assignment) -> None:
        self.pile.put_nowait(assignment)

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        self.cancelled.put_nowait(execution_id)

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        self.ended_calls.put_nowait((execution_id, entry))

    def replaced(self) -> None:
        self.was_replaced = True

    async def attach(
        self,
        credits: int = 1,  # noqa: A002 - the protocol's word
        held: Sequence[HeldLease] = (),
        input_schema: str = "",
    ) -> Sequence[bool]:
        self.session, live = await self.executor.attach(self, held, input_schema=input_schema)
        self.credit(credits)
        return live

    def credit(self, credits: int = 1) -> None:  # noqa: A002 - the protocol's word
        assert self.session is not None
        self.executor.credit(self.session, credits)
        self.executor.claim_for_free()

    async def next(self) -> Assignment:
        async with asyncio.timeout(PATIENCE_S):
            return await self.pile.get()

    async def deliver(
        self,
        assignment: Assignment,
        result: Result | None = None,
        thread: ThreadWrite | None = None,
    ) -> Reply:
        run_id = assignment.run.run_id
        outcome = replace(delivery(assignment, result), thread=thread)
        return await self.executor.deliver(TENANT, run_id, outcome)

    async def deliver_with_credits(self, assignment: Assignment, credits: int) -> None:  # noqa: A002 - the protocol's word
        """Deliver as a stream does with a message that grants credits, too."""
        assert self.session is not None
        self.executor.credit(self.session, credits)
        reply = self.executor.deliver(TENANT, assignment.run.run_id, delivery(assignment))
        self.executor.claim_for_free()
        await reply

    async def do_all(self, store: Store, run_id: str = RUN) -> None:
        """Complete whatever comes until the run has ended."""
        while True:
            assignment = await self.next()
            await self.deliver(assignment)
            self.credit()
            run = await store.get_run(TENANT, run_id)
            if run is not None and run.ended:
                return


def delivery(assignment: Assignment, result: Result | None = None) -> Delivery:
    return Delivery(
        execution_id=assignment.execution.execution_id,
        token=assignment.token,
        result=result or Completed(),
    )


class ExecutorWorld:
    """A store, its clock, and the executors over it."""

    def __init__(self, store: Store, runtime: ManualRuntime) -> None:
        self.store = store
        self.runtime = runtime
        self.executors: list[Executor] = []

    def executor(self, store: Store | None = None, **config: Any) -> Executor:
        settings = ExecutorConfig(**{"lease_ms": 10_000, **config})
        executor = Executor(store or self.store, self.runtime, settings)
        executor.start()
        self.executors.append(executor)
        return executor

    async def serving(
        self,
        *,
        credits: int = 1,  # noqa: A002 - the protocol's word
        **config: Any,
    ) -> tuple[Executor, FakeWorker]:
        """Return an executor, and the one worker that is connected to it."""
        worker = FakeWorker(self.executor(**config))
        await worker.attach(credits)
        return worker.executor, worker

    def mortal(self, commits: int = 1_000) -> tuple[Mortal, FakeWorker]:
        """Return the store of an executor that dies after a number of its commits, and a worker of it, not connected yet."""
        store = Mortal(self.store, commits)
        return store, FakeWorker(self.executor(store, poll_ms=100))

    async def succeed(self, dead: Executor) -> FakeWorker:
        """Close an executor that has died; return a worker of the one that takes over, not connected yet."""
        await dead.close()
        self.executors.remove(dead)
        return FakeWorker(self.executor(poll_ms=100), worker_id="other")

    async def start(
        self,
        executor: Executor,
        plan: Sequence[TaskSpec],
        *,
        run_id: str = RUN,
        stages: tuple[StepKind, ...] = (),
        **spec: object,
    ) -> Reply:
        whole = RunSpec(tenant_id=TENANT, run_id=run_id, **spec)  # pyright: ignore[reportArgumentType] - a test's shorthand
        return await executor.send(
            TENANT, run_id, Start(spec=whole, plan=tuple(plan), stages=stages)
        )

    async def run(self, run_id: str = RUN) -> Run:
        run = await self.store.get_run(TENANT, run_id)
        assert run is not None
        return run

    async def status(self, run_id: str = RUN) -> RunStatus:
        return (await self.run(run_id)).status

    def pass_time(self, ms: int) -> None:
        """Move the clock and have every executor look at once."""
        self.runtime.advance(ms)
        for executor in self.executors:
            executor.wake()


@asynccontextmanager
async def executor_world() -> AsyncIterator[ExecutorWorld]:
    runtime = ManualRuntime()
    world = ExecutorWorld(await open_store("memory://", runtime=runtime), runtime)
    try:
        yield world
    finally:
        for executor in world.executors:
            await executor.close()
        await world.store.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until this is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the condition belongs to the code under test
            await asyncio.sleep(0)
