"""One run through a real executor over a store that fails, and what must hold when it has ended.

Between the executor and the driver stand two doors: the faulty one, and behind it a witness that sees
what really reached the driver. Time passes in the store only while nothing else happens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from stepwell.core.loop.signals import Cancel, Completed, Delivery, ReplyStatus
from stepwell.core.port import Assignment, Commit, CommitResult, FeedQuery, Store
from stepwell.core.records.errors import StepwellError
from stepwell.core.records.states import Verdict
from stepwell.engine.executor import Executor, ExecutorConfig, HeldLease
from stepwell_testkit.conformance.ask import data_of
from stepwell_testkit.faults import Faults, FaultyStore
from stepwell_testkit.proxy import StoreProxy
from tests.simulation.crashing import KEY, Canonical, CrashWorker, CrashWorld, canonical
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.workloads import Workload

CONFIG = ExecutorConfig(lease_ms=3_000, poll_ms=20, hold_ms=50, presence_ms=200)
WITHIN_S = 100
Advance = Callable[[float], Awaitable[None]]


class Witness(StoreProxy):
    """Sees every commit that reaches the driver, and what became of it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.sent: Counter[str] = Counter()
        self.versions: dict[str, set[int]] = {}
        self.committed: dict[int, set[str]] = {}
        self.refused: set[tuple[str, int]] = set()
        """Commits refused for certain, by id and version."""
        self.calls = 0

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self.calls += 1
        self.sent.update(commit.commit_id for commit in commits)
        results = await self.inner.commit(commits)
        for commit, result in zip(commits, results, strict=True):
            name = (commit.commit_id, commit.version)
            if result.verdict is Verdict.COMMITTED:
                assert name not in self.refused, f"S5: {name} was refused, and then applied"
                self.versions.setdefault(commit.commit_id, set()).add(commit.version)
                self.committed.setdefault(commit.version, set()).add(commit.commit_id)
            else:
                assert commit.version not in self.versions.get(commit.commit_id, ()), f"S4: {name}"
                self.refused.add(name)
        return results


class Stubborn(CrashWorker):
    """A worker that reports until it is heard, and remembers what it was told."""

    accepted: dict[str, bytes]
    answers: Counter[str]

    async def work(self, executor: Executor) -> None:
        self.accepted, self.answers = {}, Counter()
        while True:
            try:
                session, _ = await executor.attach(self, self._held())
                break
            except StepwellError:
                await asyncio.sleep(0.005)
        executor.credit(session, 2)
        while True:
            assignment = await self.todo.get()
            if assignment.token in self.kept and await self._one(executor, assignment):
                executor.credit(session, 1)

    def _held(self) -> list[HeldLease]:
        return [
            HeldLease(run_id=KEY[1], execution_id=one.execution.execution_id, token=token)
            for token, one in self.kept.items()
        ]

    async def _one(self, executor: Executor, assignment: Assignment) -> bool:
        if assignment.task is not None and assignment.task.type == "cancel":
            self.world.cancel_wanted.set()
            return False
        execution_id = assignment.execution.execution_id
        result = self.world.workload.perform(assignment)
        delivery = Delivery(execution_id=execution_id, token=assignment.token, result=result)
        while True:
            try:
                reply = await executor.deliver(*KEY, delivery)
                break
            except StepwellError as error:
                self.answers[type(error).__name__] += 1
                await asyncio.sleep(0.005)
        self.answers[reply.status.name] += 1
        # With FaultyStore's modes an outcome is reported once more by rng: a lost acknowledgement.
        if reply.status is ReplyStatus.ACCEPTED and isinstance(result, Completed):
            assert result.result is not None
            self.accepted[execution_id] = result.result.data
        with suppress(StepwellError):
            again = await executor.deliver(*KEY, delivery)
            self.answers[f"again {again.status.name}"] += 1
            assert again.status is not ReplyStatus.ACCEPTED, "S8: accepted a second time"
        self.kept.pop(assignment.token, None)
        return True


class FaultyWorld(CrashWorld):
    """One run in one life, over a store that fails."""

    def __init__(
        self, workload: Workload, store: Store, faults: Faults, seed: int, advance: Advance | None
    ) -> None:
        super().__init__(workload, _never, None)
        self.faults = faults
        self.seed = seed
        self.advance = advance
        self.witness = Witness(store)
        self.runtime = SimRuntime(asyncio.get_running_loop(), Rng(f"faults {seed}"))
        self.store = FaultyStore(self.witness, self.runtime, faults)
        self.worker = Stubborn(self, "worker", 1)

    async def run(self) -> Canonical:
        """Return the final state, with all that must hold checked."""
        executor = Executor(self.store, self.runtime, CONFIG)
        executor.start()
        self.runtime.spawn(self.worker.work(executor), name="worker")
        if self.advance is not None:
            self.runtime.spawn(self._time_passes(self.advance), name="time")
        caring = self.runtime.spawn(self._cared(executor), name="care")
        try:
            async with asyncio.timeout(WITHIN_S):
                await caring
            self.store.faults = Faults()
            await asyncio.sleep(0.05)
            found = await canonical(self.witness.inner)
            await self._must_hold()
            return found
        finally:
            await executor.close()
            self.runtime.kill()
            await asyncio.sleep(0)

    async def _cared(self, executor: Executor) -> None:
        """Start the run and see it to its end; what the store refuses is said again."""
        store = self.witness.inner
        await self._post_until_accepted(executor, self.workload.start(*KEY))
        while True:
            run = await store.get_run(*KEY)
            if run is not None and run.ended:
                return
            if self.cancel_wanted.is_set():
                command = Cancel(request_id="cancel", fingerprint="cancel", reason="no more")
                await self._post_until_accepted(executor, command)
            await asyncio.sleep(0.005)

    async def _post_until_accepted(self, executor: Executor, command: object) -> None:
        while True:
            try:
                reply = await executor.send(*KEY, command)  # pyright: ignore[reportArgumentType] - one of two kinds
            except StepwellError:
                await asyncio.sleep(0.005)
                continue
            assert reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED), reply
            return

    async def _time_passes(self, advance: Advance) -> None:
        while True:
            before = self.witness.calls
            await asyncio.sleep(0.1)
            # Leases run out only when nothing goes on any more.
            await advance(500 if self.witness.calls == before else 20)

    async def _must_hold(self) -> None:
        store, witness = self.witness.inner, self.witness
        run = await store.get_run(*KEY)
        assert run is not None
        for commit_id, versions in witness.versions.items():
            assert len(versions) == 1, f"S4: {commit_id} at {versions}"
        for version, ids in witness.committed.items():
            assert len(ids) == 1, f"S2: {ids} at {version}"
        fed = [one.version for one in (await store.page(FeedQuery())).items if one.run_id == KEY[1]]
        assert fed == list(range(1, run.version + 1)), "S2, S4: each version once"
        page = await store.read_events(*KEY, after=0, limit=100_000)
        assert page is not None
        assert [one.number for one in page.events] == list(range(1, run.last_event + 1)), "E1"
        names = list(self.worker.accepted)
        kept = {one.key: data_of(one) for one in await store.read_payloads(*KEY, names)}
        assert kept == self.worker.accepted, "S3, S7: an acknowledged outcome was lost or altered"

    @property
    def seen(self) -> Counter[str]:
        """Count what befell the run, with the commits that were seen again."""
        found = Counter(self.store.seen)
        found["commit_id seen again"] = sum(many > 1 for many in self.witness.sent.values())
        found.update({f"told {what}": many for what, many in self.worker.answers.items()})
        return found


async def _never() -> Store:
    raise AssertionError("the store is given")
