"""One run, its executor crashed at a chosen commit and started again, as often as it takes.

The same code plays on a memory store in virtual time and on a SQLite file in real time. A crash is
the executor gone between two steps of any of its tasks: the commit never reached the store, or the
store has it and nobody was told. Then the store is closed and opened anew where it is a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from stepwell.core.inputs import Cancel, Delivery, ReplyStatus
from stepwell.core.model import RetryPolicy
from stepwell.core.ports import ANY_ROLE, Assignment, Commit, CommitResult, Presence, Store
from stepwell.core.states import ExecutionStatus, StepKind, TaskStatus
from stepwell.executor import Executor, ExecutorConfig, Held
from stepwell.testing.proxy import StoreProxy
from stepwell.testing.simulator.chance import Chance
from stepwell.testing.simulator.runtime import SimRuntime
from stepwell.testing.simulator.workloads import Workload

KEY = ("tenant", "run")
AT_ONCE = RetryPolicy(max_attempts=6, initial_backoff_ms=0)
CONFIG = ExecutorConfig(lease_ms=3_000, poll_ms=20, hold_ms=1)
LIVES_MAX = 4


class Side(StrEnum):
    BEFORE = "before the commit reaches the store"
    AFTER = "after the store has it, unacknowledged"


class Fate(StrEnum):
    """What becomes of the worker when its executor crashes."""

    SURVIVES = "it keeps its outcomes and reports them again"
    RESTARTS = "a new instance of it comes"
    VANISHES = "another worker comes, and its leases have to expire"


class Crash(NamedTuple):
    at: int
    """The number of the commit, from 1."""
    side: Side
    fate: Fate = Fate.SURVIVES


class CrashingStore(StoreProxy):
    """A door that counts commits, and never comes back from the chosen one."""

    def __init__(self, inner: Store, world: CrashWorld) -> None:
        super().__init__(inner)
        self.world = world

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        world, crash = self.world, self.world.crash
        for number in range(world.commits + 1, world.commits + len(commits) + 1):
            if crash is not None and number == crash.at and not world.crashed.is_set():
                if crash.side is Side.AFTER:
                    await self.inner.commit(commits)
                world.crashed.set()
                await asyncio.Event().wait()
        world.commits += len(commits)
        return await self.inner.commit(commits)


class Hand:
    """A worker that does one step at a time and keeps each outcome until it is acknowledged."""

    def __init__(self, world: CrashWorld, worker_id: str, instance: int) -> None:
        self.world = world
        self.presence = Presence(
            tenant_id=KEY[0],
            worker_id=worker_id,
            instance_id=f"{worker_id}-{instance}",
            queues=("default",),
            roles=(ANY_ROLE,),
            kinds=tuple(StepKind),
        )
        self.stages = (StepKind.REFLECT, StepKind.SYNTHESIZE)
        self.todo: asyncio.Queue[Assignment] = asyncio.Queue()
        self.kept: dict[str, Assignment] = {}

    def assign(self, assignment: Assignment) -> None:
        self.kept[assignment.token] = assignment
        self.todo.put_nowait(assignment)

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        for token, assignment in tuple(self.kept.items()):
            if assignment.execution.execution_id == execution_id:
                del self.kept[token]

    def replaced(self) -> None:
        self.kept.clear()

    async def work(self, executor: Executor) -> None:
        session, live = await executor.attach(
            self,
            [
                Held(run_id=KEY[1], execution_id=a.execution.execution_id, token=t)
                for t, a in self.kept.items()
            ],
        )
        self.todo = asyncio.Queue()
        for assignment, is_live in zip(tuple(self.kept.values()), live, strict=True):
            if is_live:
                self.todo.put_nowait(assignment)
            else:
                del self.kept[assignment.token]
        executor.credit(session, 2)
        while True:
            assignment = await self.todo.get()
            if assignment.token in self.kept and await self._one(executor, assignment):
                executor.credit(session, 1)

    async def _one(self, executor: Executor, assignment: Assignment) -> bool:
        if assignment.task is not None and assignment.task.type == "cancel":
            # While this one is under way somebody cancels the run; it never reports.
            self.world.cancel_wanted.set()
            return False
        delivery = Delivery(
            execution_id=assignment.execution.execution_id,
            token=assignment.token,
            result=self.world.workload.perform(assignment),
        )
        await executor.deliver(*KEY, delivery)
        self.kept.pop(assignment.token, None)
        return True


class CrashWorld:
    """One run over as many lives of its executor as it takes."""

    def __init__(
        self, workload: Workload, open_store: Callable[[], Awaitable[Store]], crash: Crash | None
    ) -> None:
        self.workload = workload
        self.open_store = open_store
        self.crash = crash
        self.commits = 0
        self.crashed = asyncio.Event()
        self.cancel_wanted = asyncio.Event()
        self.lives = 0

    async def play(self) -> Canonical:
        """Return the final state; the run has ended then."""
        hand = Hand(self, "hand", 1)
        while True:
            self.lives += 1
            assert self.lives <= LIVES_MAX
            store = await self.open_store()
            runtime = SimRuntime(asyncio.get_running_loop(), Chance(f"life {self.lives}"))
            executor = Executor(CrashingStore(store, self), runtime, CONFIG)
            executor.start()
            runtime.spawn(hand.work(executor), name="hand")
            ended = runtime.spawn(self._care(executor, store), name="care")
            crashed = asyncio.ensure_future(self.crashed.wait()) if self.lives == 1 else None
            waited = [ended] if crashed is None else [ended, crashed]
            async with asyncio.timeout(60):
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            over = ended.done()
            found = await canonical(store) if over else None
            runtime.kill()
            if crashed is not None:
                crashed.cancel()
            await asyncio.wait([ended, *waited])
            await asyncio.sleep(0)
            await store.close()
            if found is not None:
                ended.result()
                return found
            assert self.crash is not None
            hand = self._next_hand(hand, self.crash.fate)

    def _next_hand(self, hand: Hand, fate: Fate) -> Hand:
        if fate is Fate.SURVIVES:
            return hand
        return Hand(self, "hand" if fate is Fate.RESTARTS else "stranger", 2)

    async def _care(self, executor: Executor, store: Store) -> None:
        """Start the run, cancel it when that is wanted, wait for its end. Said again in each life."""
        reply = await executor.send(*KEY, self.workload.start(*KEY))
        assert reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED), reply
        while True:
            run = await store.get_run(*KEY)
            if run is not None and run.ended:
                return
            if self.cancel_wanted.is_set():
                command = Cancel(request_id="cancel", fingerprint="cancel", reason="no more")
                reply = await executor.send(*KEY, command)
                assert reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED), reply
            await asyncio.sleep(0.005)


class Canonical(NamedTuple):
    """What a run came to: all that a caller can see but times, ids and numbers of attempts."""

    run: tuple[object, ...]
    tasks: dict[str, tuple[object, ...]]
    plans: tuple[str, ...]
    answer: bytes | None


async def canonical(store: Store) -> Canonical:
    """Read a run's final state; on the way, that each completed task was accepted once (S18)."""
    run = await store.get_run(*KEY)
    assert run is not None
    rows = (await store.list_tasks(*KEY, limit=1_000)).tasks
    executions = (await store.list_executions(*KEY, limit=1_000)).executions
    tasks: dict[str, tuple[object, ...]] = {}
    for task in rows:
        accepted = [
            one.execution_id
            for one in executions
            if one.task_id == task.task_id and one.status is ExecutionStatus.COMPLETED
        ]
        if task.status is TaskStatus.COMPLETED:
            assert accepted == [task.result_id], f"S18: {task.task_id}: {accepted}"
        payloads = await store.read_payloads(*KEY, [task.result_id]) if task.result_id else []
        data = payloads[0].payload.data if payloads else None
        tasks[task.task_id] = (task.status, task.revision, task.failure.kind, data)
    plans: list[str] = []
    for revision in range(1, run.plan_revision + 1):
        plan = await store.read_plan(*KEY, revision)
        assert plan is not None
        plans.append(f"{plan.trigger} {plan.iteration} {plan.fingerprint}")
    payloads = await store.read_payloads(*KEY, [run.result_id]) if run.result_id else []
    answer = payloads[0].payload.data if payloads else None
    facts = (run.status, run.phase, run.iteration, run.finish_reason, run.counts, run.failure.kind)
    return Canonical(facts, tasks, tuple(plans), answer)
