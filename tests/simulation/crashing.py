"""One run, its executor crashed at chosen commits and started again, as often as it takes.

The same code plays on a memory store in virtual time and on any other store on a real loop, whose
store's clock a test moves by hand. A crash is the executor gone between two steps of any of its
tasks: the commit never reached the store, or the store has it and no answer came. Then the store is
closed and reopened, as another process would. Or the executor lives and learns that the outcome is
unknown, whether the store has the commit or not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from stepwell.core.loop.children import PARENT_LABEL
from stepwell.core.port import Commit, CommitResult, ExecutionQuery, RunQuery, Runtime, Store
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.core.records.states import Verdict
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.store.opener import open_store
from stepwell_testkit.proxy import StoreProxy
from tests.simulation.canonical import Canonical, RunKey, canonical
from tests.simulation.crash_actors import Callers, CrashWorker, Died
from tests.simulation.crash_workloads import POISON_ATTEMPTS_MAX, CrashWorkload
from tests.simulation.simulator.loop import VirtualLoop
from tests.simulation.simulator.ports import HONEST
from tests.simulation.simulator.reading import every
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime

VIRTUAL = ExecutorConfig(lease_ms=3_000, poll_ms=1_000, hold_ms=1)
REAL = ExecutorConfig(lease_ms=3_000, poll_ms=20, hold_ms=1)
"""A clock that is moved by hand wakes no sleeper."""
STILL_S = 0.02
STEPS_MS = (100, 1_000, 4_000)
"""So far the store's clock goes where nothing has happened for `STILL_S`: further each time."""
CRASHES_MAX = 2
WITHIN_S = 60

Advance = Callable[[float], Awaitable[None]]


class Side(StrEnum):
    """The fate of a commit and of the executor that made it."""

    BEFORE = "a crash before the commit reaches the store"
    AFTER = "a crash after the store has it, unacknowledged"
    APPLIED = "the outcome is unknown to the executor, and the store has the commit"
    LOST = "the outcome is unknown to the executor, and the store has nothing"

    @property
    def kills(self) -> bool:
        """True if the executor is gone."""
        return self in (Side.BEFORE, Side.AFTER)

    @property
    def reaches_the_store(self) -> bool:
        """True if the store has the commit."""
        return self in (Side.AFTER, Side.APPLIED)


class Fate(StrEnum):
    """The fate of the worker when its executor crashes."""

    SURVIVES = "it keeps its outcomes and reports them again"
    RESTARTS = "a new instance of it comes"
    VANISHES = "another worker comes, and its leases have to expire"


class Crash(NamedTuple):
    """A fault in one life of an executor."""

    at: int
    """The number of the commit, from 1 in each life."""
    side: Side
    fate: Fate = Fate.SURVIVES


class CrashingStore(StoreProxy):
    """A store that counts commits, and never returns from the chosen one."""

    def __init__(self, inner: Store, world: CrashWorld, crash: Crash | None) -> None:
        super().__init__(inner)
        self.world = world
        self.crash = crash
        self.commits = 0
        self.crashed = asyncio.Event()
        self.unknown: set[str] = set()
        """Ids of commits that may have been applied, for all that their executor knows."""
        self.verdicts: dict[str, set[Verdict]] = {}

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        """Apply them, all but what the crash leaves out."""
        crash, first = self.crash, self.commits + 1
        self.commits += len(commits)
        names = {commit.commit_id for commit in commits}
        self.unknown -= names
        if crash is not None and first <= crash.at <= self.commits:
            self.crash = None
            # Of a group the store may have a part: this one is its last, or the first that it misses.
            part = commits[: crash.at - first + crash.side.reaches_the_store]
            if part:
                await self._apply(part)
            self.world.happened[crash.side] += 1
            if not crash.side.kills:
                self.unknown |= names
                raise OutcomeUnknown("no answer came in time")
            self.crashed.set()
            await asyncio.Event().wait()
        return await self._apply(commits)

    async def _apply(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        world = self.world
        world.under_way += 1
        try:
            results = await self.inner.commit(commits)
        finally:
            world.under_way -= 1
        for commit, result in zip(commits, results, strict=True):
            self.verdicts.setdefault(commit.commit_id, set()).add(result.verdict)
            if result.verdict is Verdict.COMMITTED:
                world.applied[commit.commit_id] += 1
        world.callers.moved.set()
        return results

    def check(self) -> None:
        """S4: what was unknown was asked again, the same, and each commit has one verdict."""
        assert not self.unknown, f"S4: never asked again: {self.unknown}"
        for name, verdicts in self.verdicts.items():
            assert len(verdicts) == 1, f"S4: {name} is {verdicts}"


class End(NamedTuple):
    """The end of all runs, and of the world outside."""

    runs: tuple[Canonical, ...]
    effects: dict[str, int]
    """The number of times that the effect of each AT_MOST_ONCE task took place."""


class CrashWorld:
    """One run and its fork, over as many lives of its executor as it takes."""

    def __init__(
        self,
        workload: CrashWorkload,
        open_store: Callable[[], Awaitable[Store]],
        crashes: Sequence[Crash],
        *,
        key: RunKey = ("tenant", "run"),
        advance: Advance | None = None,
    ) -> None:
        self.open_store = open_store
        self.crashes = crashes
        self.advance = advance
        """Moves the store's clock, in milliseconds; None: it is this loop's."""
        self.callers = Callers(key, workload)
        self.commits: list[int] = []
        """The number of commits that each life has sent."""
        self.applied: Counter[str] = Counter()
        """The number of times that the store has answered COMMITTED to each commit id."""
        self.happened: Counter[Side] = Counter()
        self.deaths = 0
        """Workers that a step has killed."""
        self.under_way = 0
        self._instances = 0
        self._worker = self._new_worker("worker")

    @property
    def lives(self) -> int:
        """The number of executors so far."""
        return len(self.commits)

    async def play(self) -> End:
        """Return what all came to; every run has ended then."""
        for number in range(CRASHES_MAX + 1):
            crash = self.crashes[number] if number < len(self.crashes) else None
            end = await self._live(crash)
            if end is not None:
                return end
            assert crash is not None
            if crash.fate is not Fate.SURVIVES:
                self._worker = self._new_worker(
                    "worker" if crash.fate is Fate.RESTARTS else "stranger"
                )
        raise AssertionError("a life without a crash did not come to an end")

    async def _live(self, crash: Crash | None) -> End | None:
        """Play one life of the executor; None: it has crashed."""
        store = await self.open_store()
        runtime = SimRuntime(asyncio.get_running_loop(), Rng(f"life {self.lives + 1}"))
        crashing = CrashingStore(store, self, crash)
        executor = Executor(crashing, runtime, REAL if self.advance is not None else VIRTUAL)
        executor.start()
        tasks = [
            runtime.spawn(self._serve(executor), name="workers"),
            runtime.spawn(self.callers.serve(executor, store, self._poll_s), name="callers"),
            runtime.spawn(crashing.crashed.wait(), name="crash"),
        ]
        # The clock is no part of the process that dies: what moves it is never broken off.
        over = asyncio.Event()
        clock = asyncio.ensure_future(self._let_time_pass(crashing, over))
        try:
            async with asyncio.timeout(WITHIN_S):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
                if not crashing.crashed.is_set():
                    # An unknown outcome is asked again, also where no caller waits for it. And the
                    # run's last commit may yet be the crash: callers can see its end before its sender.
                    tasks.append(runtime.spawn(_rest(executor), name="rest"))
                    done, _ = await asyncio.wait(tasks[-2:], return_when=asyncio.FIRST_COMPLETED)
                    for one in done:
                        one.result()
                if crashing.crashed.is_set():
                    return None
                crashing.check()
            return await self._end(store)
        finally:
            self.commits.append(crashing.commits)
            runtime.kill()
            await asyncio.wait(tasks)
            over.set()
            await clock
            await asyncio.sleep(0)
            await store.close()

    @property
    def _poll_s(self) -> float:
        """The interval at which callers read the store, hints or not."""
        return 0.05 if self.advance is not None else 1.0

    async def _serve(self, executor: Executor) -> None:
        """Have workers, one after another: a step may kill each."""
        while True:
            try:
                await self._worker.work(executor)
            except Died:
                self.deaths += 1
                assert self.deaths <= POISON_ATTEMPTS_MAX, "S13: a step goes on killing its workers"
                self._worker = self._new_worker(self._worker.worker_id)

    def _new_worker(self, worker_id: str) -> CrashWorker:
        self._instances += 1
        return CrashWorker(self.callers, worker_id, self._instances)

    async def _let_time_pass(self, crashing: CrashingStore, over: asyncio.Event) -> None:
        """Let the store's clock go on where nothing else does; back-offs and leases end by that alone."""
        seen, still = -1, 0
        while self.advance is not None and not over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(STILL_S):
                    await over.wait()
            if crashing.commits != seen or self.under_way:
                seen, still = crashing.commits, 0
            elif not over.is_set():
                await self.advance(STEPS_MS[min(still, len(STEPS_MS) - 1)])
                still += 1

    async def _end(self, store: Store) -> End:
        bank, keys = (
            self.callers.bank,
            [*self.callers.keys, *await _children(store, *self.callers.key)],
        )
        runs = [await canonical(store, key) for key in keys]
        for key in keys:
            # S3, S7: every result that was acknowledged is in the store, byte for byte.
            known = {
                name: data for (whose, name), data in bank.acknowledged.items() if whose == key
            }
            kept = {one.key: one.payload for one in await store.read_payloads(*key, list(known))}
            assert kept == known, "S3: an acknowledged outcome was lost or altered"
        for name, count in bank.effects.items():
            assert count == 1, f"the effect of {name} took place {count} times"
        return End(tuple(runs), dict(bank.effects))


async def _rest(executor: Executor) -> None:
    """Wait until the executor commits nothing any more, also not to remove delivered letters."""
    await executor.quiet()
    await executor.drain()


async def _children(store: Store, tenant_id: str, run_id: str) -> list[RunKey]:
    """Return the children of a run by their goals; all that they have used is in what it has."""
    query = RunQuery(tenant_id=tenant_id, labels={PARENT_LABEL: run_id})
    runs = sorted(await every(store, query), key=lambda one: one.spec.goal)
    run = await store.get_run(tenant_id, run_id)
    own = await every(store, ExecutionQuery(tenant_id=tenant_id, run_id=run_id))
    used = sum(one.usage.input_tokens for one in (*runs, *own))
    assert run is not None
    assert run.usage.input_tokens == used, "F2: usage of children"
    return [(tenant_id, one.spec.run_id) for one in runs]


class Played(NamedTuple):
    """The end of a run, and the world that it was played in."""

    end: End
    world: CrashWorld


def on_memory(
    workload: CrashWorkload,
    *crashes: Crash,
    driver: Callable[[Store, Runtime], Store] = HONEST.driver,
) -> Played:
    """Play a run in virtual time on a memory store of its own, with what stands in the driver's place."""

    async def play() -> Played:
        runtime = SimRuntime(loop, Rng("store"))
        keeper = await open_store("memory://crash-points", runtime=runtime)

        async def open_again() -> Store:
            return driver(await open_store("memory://crash-points", runtime=runtime), runtime)

        world = CrashWorld(workload, open_again, crashes)
        try:
            return Played(await world.play(), world)
        finally:
            await keeper.close()

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(play())
    finally:
        loop.close()
