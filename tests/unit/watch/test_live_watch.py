"""Watchers and waiters of a run that is worked on here: what they read from the store, and what is encoded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import pytest

from stepwell.core.loop.occurrences import Cancel, Pause, Resume
from stepwell.core.port import Commit, CommitResult, Hint, Store
from stepwell.core.records.errors import OutcomeUnknown, RunNotFound, StoreStopped
from stepwell.core.records.events import Event
from stepwell.core.records.model import Run, TaskSpec
from stepwell.engine.executor import Executor
from stepwell.watch import notifier, runs
from stepwell.watch.notifier import Notifier
from stepwell.watch.rings import Rings
from stepwell.watch.runs import Batch, wait_end, watch_run
from stepwell.watch.waker import PAUSE_S, TURN
from stepwell.wire.event_bytes import event_bytes
from tests.support.patience import PATIENCE_S, until
from tests.unit.engine.executor_world import RUN, TENANT, ExecutorWorld, Rigged, executor_world

WATCHERS = 5
STEPS = 10


class Replica:
    """An executor and the watches beside it, as a server has them."""

    def __init__(self, world: ExecutorWorld, store: Store | None = None) -> None:
        self.store = Rigged(store or world.store)
        self.runtime = world.runtime
        self.executor: Executor = world.executor(self.store, poll_ms=600_000)
        self.encodings: Counter[int] = Counter()
        self.rings = Rings(self._encode, self.executor.committing, self.runtime)
        self.executor.observe(self.rings)
        self.notifier = Notifier(self.store, self.rings)

    def _encode(self, event: Event) -> bytes:
        self.encodings[event.number] += 1
        return event_bytes(event)

    def watch(self, after: int = 0) -> AsyncGenerator[Batch]:
        return watch_run(
            self.store,
            self.notifier,
            self.runtime,
            tenant_id=TENANT,
            run_id=RUN,
            after=after,
            progress_ms=600_000,
        )

    async def wait(self) -> Run | None:
        return await wait_end(self.store, self.notifier, tenant_id=TENANT, run_id=RUN)

    def calls(self) -> dict[str, int]:
        """Return the calls of the store, but for the claims, by which the executor looks for work."""
        return {name: count for name, count in self.store.calls.items() if name != "claim"}

    async def toggle(self, times: int) -> None:
        """Commit twice so many times."""
        for _ in range(times):
            await self.executor.send(TENANT, RUN, Pause())
            await self.executor.send(TENANT, RUN, Resume())


class Seen(NamedTuple):
    """A watcher, and the numbers that it has seen."""

    numbers: list[int]
    task: asyncio.Task[Batch]


def seeing(replica: Replica, after: int = 0) -> Seen:
    numbers: list[int] = []

    async def watch() -> Batch:
        batch = Batch()
        async with aclosing(replica.watch(after)) as batches:
            async for batch in batches:
                numbers.extend(event.number for event in batch.events)
        return batch

    return Seen(numbers, asyncio.ensure_future(watch()))


async def ends(seen: Sequence[Seen]) -> list[Batch]:
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*(one.task for one in seen))


@pytest.fixture(autouse=True)
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing read because time has passed."""
    for module in (notifier, runs):
        monkeypatch.setattr(module, "POLL_MS", 600_000)


@pytest.fixture
async def world() -> AsyncIterator[ExecutorWorld]:
    async with executor_world() as world:
        yield world


@pytest.fixture
async def replica(world: ExecutorWorld) -> Replica:
    replica = Replica(world)
    await world.start(replica.executor, [TaskSpec(task_id="a")])
    return replica


async def level(replica: Replica, seen: Sequence[Seen]) -> int:
    """Wait until the watchers have seen all there is; return the last number."""
    run = await replica.store.get_run(TENANT, RUN)
    assert run is not None
    await until(lambda: all(one.numbers[-1:] == [run.last_event] for one in seen))
    return run.last_event


async def test_live_watchers_cause_no_statement_and_an_event_is_encoded_once(
    replica: Replica,
) -> None:
    seen = [seeing(replica) for _ in range(WATCHERS)]
    first = await level(replica, seen)
    waiting = [asyncio.ensure_future(replica.wait()) for _ in range(WATCHERS)]
    await until(lambda: replica.store.calls["get_run"] == WATCHERS + 1)
    replica.store.calls.clear()
    replica.encodings.clear()

    await replica.toggle(STEPS)
    await replica.executor.send(TENANT, RUN, Cancel())
    last = await ends(seen)

    events = list(range(1, last[0].after + 1))
    assert len(events) > 2 * STEPS
    assert all(one.numbers == events for one in seen)
    assert replica.encodings == dict.fromkeys(events[first:], 1)
    ended = [await one for one in waiting]
    assert {run.last_event for run in ended if run is not None} == {last[0].after}
    assert all(batch.run == ended[0] for batch in last)
    assert replica.calls() == {"commit": 2 * STEPS + 1}
    assert (replica.rings.followers, replica.rings.bytes) == (0, 0)


async def test_in_a_crowd_what_comes_before_a_watchers_turn_comes_together(
    replica: Replica,
) -> None:
    crowd = [seeing(replica) for _ in range(TURN)]
    first = await level(replica, crowd)
    last: Any = replica.watch(first)
    async with aclosing(last):
        coming = asyncio.ensure_future(anext(last))
        await until(lambda: replica.rings.followers == TURN + 1)
        await until(lambda: replica.store.calls["read_events"] == TURN + 1)
        replica.store.calls.clear()

        await replica.toggle(STEPS)
        assert not coming.done()
        replica.runtime.advance(PAUSE_S * 1_000)
        batch = await coming

    final = await level(replica, [])
    assert [event.number for event in batch.events] == list(range(first + 1, final + 1))
    assert replica.calls() == {"commit": 2 * STEPS, "get_run": 1}
    for one in crowd:
        one.task.cancel()


async def test_one_behind_the_ring_reads_the_store_and_becomes_live(replica: Replica) -> None:
    live = seeing(replica)
    await level(replica, [live])
    await replica.toggle(STEPS)
    behind = seeing(replica)
    await level(replica, [live, behind])
    replica.store.calls.clear()

    await replica.toggle(1)
    await replica.executor.send(TENANT, RUN, Cancel())
    await ends([live, behind])

    assert behind.numbers == live.numbers == list(range(1, live.numbers[-1] + 1))
    assert replica.calls() == {"commit": 3}


async def test_watchers_on_two_replicas_see_the_commits_of_both(world: ExecutorWorld) -> None:
    one, two = Replica(world), Replica(world)
    await world.start(one.executor, [TaskSpec(task_id="a")])
    seen = [seeing(replica) for replica in (one, two, one, two)]

    for replica in (one, two, one, one, two):
        await replica.toggle(1)
        await level(replica, seen)
    waiting = [asyncio.ensure_future(replica.wait()) for replica in (one, two)]
    await two.executor.send(TENANT, RUN, Cancel())
    await ends(seen)

    assert all(watcher.numbers == seen[0].numbers for watcher in seen)
    assert seen[0].numbers == list(range(1, seen[0].numbers[-1] + 1))
    async with asyncio.timeout(PATIENCE_S):
        ended = await asyncio.gather(*waiting)
    assert {run.last_event for run in ended if run is not None} == {seen[0].numbers[-1]}


class Deaf(Rigged):
    """A store whose hints are lost."""

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        del hint
        return lambda: None


async def test_commit_here_shows_what_was_committed_elsewhere_without_a_hint(
    world: ExecutorWorld,
) -> None:
    made: list[Commit] = []

    async def note(method: str, *args: Any, **_: Any) -> None:
        if method == "commit":
            made.extend(args[0])

    other = world.executor(Rigged(world.store, note), poll_ms=600_000)
    replica = Replica(world, Deaf(world.store))
    await world.start(other, [TaskSpec(task_id="a")])
    seen = seeing(replica)
    await level(replica, [seen])

    await other.send(TENANT, RUN, Pause())
    await other.send(TENANT, RUN, Resume())
    assert seen.numbers[-1] < made[-2].run.last_event
    # As if this replica had read the pause and then committed the resumption itself.
    replica.rings.committed(made[-1])

    assert await level(replica, [seen]) == made[-1].run.last_event
    assert seen.numbers == list(range(1, made[-1].run.last_event + 1))
    seen.task.cancel()


async def test_hint_that_comes_with_a_commit_here_is_followed_at_once(world: ExecutorWorld) -> None:
    made: list[Commit] = []

    async def note(method: str, *args: Any, **_: Any) -> None:
        if method == "commit":
            made.extend(args[0])

    replica = Replica(world, Deaf(world.store))
    await world.start(replica.executor, [TaskSpec(task_id="a")])
    seen = seeing(replica)
    await level(replica, [seen])
    other = world.executor(Rigged(world.store, note), poll_ms=600_000)
    await other.send(TENANT, RUN, Pause())
    await other.send(TENANT, RUN, Resume())

    # As if this replica had committed the pause, and heard of the resumption before its watchers had their turn.
    replica.rings.committed(made[0])
    replica.rings.hint(TENANT, RUN, made[1].version)

    assert await level(replica, [seen]) == made[1].run.last_event
    seen.task.cancel()


async def test_conflict_shows_what_was_committed_elsewhere_without_a_hint(
    world: ExecutorWorld,
) -> None:
    other = world.executor(Rigged(world.store), poll_ms=600_000)
    replica = Replica(world, Deaf(world.store))
    await world.start(replica.executor, [TaskSpec(task_id="a")])
    seen = seeing(replica)
    before = await level(replica, [seen])
    await other.send(TENANT, RUN, Pause())

    # It doesn't know of that pause, so its own commit is refused; then there is nothing left to commit.
    await replica.executor.send(TENANT, RUN, Pause())

    after = await level(replica, [seen])
    assert seen.numbers == list(range(1, after + 1))
    assert after > before
    seen.task.cancel()


class Stopping(Rigged):
    """A store that makes one more commit, doesn't say so, and stops."""

    stopping = False
    stopped = False

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        if self.stopped:
            raise StoreStopped("it has stopped")
        results = await super().commit(commits)
        if self.stopping:
            self.stopped = True
            raise OutcomeUnknown("no answer came")
        return results


async def test_events_of_a_commit_whose_outcome_is_unknown_come_from_the_store(
    world: ExecutorWorld,
) -> None:
    store = Stopping(world.store)
    replica = Replica(world, store)
    await world.start(replica.executor, [TaskSpec(task_id="a")])
    seen = seeing(replica)
    before = await level(replica, [seen])

    store.stopping = True
    sent = asyncio.ensure_future(replica.executor.send(TENANT, RUN, Pause()))
    await until(lambda: store.stopped)
    world.pass_time(60_000)
    with pytest.raises(OutcomeUnknown):
        await sent
    after = await level(replica, [seen])

    assert seen.numbers == list(range(1, after + 1))
    assert after > before
    seen.task.cancel()


async def test_deletion_here_ends_the_watches(replica: Replica) -> None:
    seen = seeing(replica)
    await level(replica, [seen])
    run = await replica.store.get_run(TENANT, RUN)
    assert run is not None

    await replica.store.delete_run(TENANT, RUN, version=run.version)
    replica.executor.forget(TENANT, RUN)

    with pytest.raises(RunNotFound):
        await ends([seen])
    assert replica.rings.followers == 0


async def test_slow_reader_misses_nothing_and_its_events_come_together(replica: Replica) -> None:
    slow: Any = replica.watch()
    async with aclosing(slow):
        before = await anext(slow)
        await until(lambda: replica.rings.followers == 1)
        await replica.toggle(STEPS)
        replica.store.calls.clear()
        batch = await anext(slow)

    run = await replica.store.get_run(TENANT, RUN)
    assert run is not None
    assert [event.number for event in batch.events] == list(
        range(before.after + 1, run.last_event + 1)
    )
    assert replica.calls() == {"get_run": 1}
