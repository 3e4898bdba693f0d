"""Small worlds for what the simulator and the conformance suite don't meet: L4, E6, E9 and D3.

Each is played with what stands at the ports, and raises the violation of its invariant.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Pause, Resume, Start
from stepwell.core.port import EventPage, Store
from stepwell.core.records.errors import CursorOutOfRange, StoreError
from stepwell.core.records.model import RunSpec
from stepwell.engine.executor import Executor, ExecutorConfig
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell.watch.notifier import Notifier
from stepwell.watch.rings import Rings
from stepwell.watch.runs import PAGE_EVENTS_MAX, Batch, watch_run
from stepwell.wire.event_bytes import event_bytes
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.faults import Faults, FaultyStore
from stepwell_testkit.proxy import StoreProxy
from tests.chaos.disk.disk import disk
from tests.simulation.simulator import Ports, Rng, VirtualLoop
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.violation import holds
from tests.simulation.simulator.workloads import chain
from tests.unit.engine.executor_world import TENANT, FakeWorker

CONFIG = ExecutorConfig(lease_ms=3_000, poll_ms=1_000, stickiness_ms=100)
STEP_S = 0.02
OTHERS = 5
WITHIN_S = 6.0
"""Two holds and a poll: a step that was claimed while the worker had no room comes back after its hold."""


def in_virtual_time(
    play: Callable[[Ports, SimRuntime], Coroutine[Any, Any, None]],
) -> Callable[[Ports], None]:
    """Have a world played on a loop and a runtime of its own, without any waiting."""

    def played(ports: Ports) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(play(ports, SimRuntime(loop, Rng("scenario"))))
        finally:
            loop.close()

    return played


# --- L4 ------------------------------------------------------------------------------------------------


@in_virtual_time
async def no_run_starves(ports: Ports, runtime: SimRuntime) -> None:
    """Have one worker with one place, a run with many steps in a row, and others that want their turn.

    Each of the others must have its step within the time that eager leases may overtake, and a poll.
    """
    store = await open_store("memory://", runtime=runtime)
    # A claim takes longer than a commit, as it does on a busy database.
    slow = Faults(delay=1.0, delay_ms_max=20, methods=frozenset({"claim"}))
    own_runtime = ports.runtime(runtime)
    executor = Executor(FaultyStore(store, runtime, slow), own_runtime, CONFIG)
    worker, done = FakeWorker(executor), set[str]()
    await worker.attach()

    async def work() -> None:
        while True:
            one = await worker.pile.get()
            await runtime.sleep(STEP_S)
            # As a worker of one place does: it has room again when it reports.
            await worker.deliver_with_credits(one, 1)
            done.add(one.run.run_id)

    executor.start()
    runtime.spawn(work(), name="worker")
    try:
        await _start(executor, "busy", 600)
        while "busy" not in done:
            await runtime.sleep(STEP_S)
        names = [f"other-{n}" for n in range(OTHERS)]
        for name in names:
            await _start(executor, name, 1)
        await runtime.sleep(WITHIN_S)
        run = await store.get_run(TENANT, "busy")
        assert run is not None
        assert not run.ended, "the busy run is too short for this"
        waiting = [name for name in names if name not in done]
        holds(not waiting, "L4", f"{waiting} had no turn within {WITHIN_S:g} s")
    finally:
        await executor.close()
        runtime.kill()
        await store.close()


async def _start(executor: Executor, run_id: str, steps: int) -> None:
    spec = RunSpec(tenant_id=TENANT, run_id=run_id, queue="default")
    await executor.send(TENANT, run_id, Start(spec=spec, plan=chain(f"{run_id}-", steps)))


# --- E6, E9 --------------------------------------------------------------------------------------------


class _Trimmed(StoreProxy):
    """A store whose retention has removed the first events of each run; it counts those that it returns."""

    def __init__(self, inner: Store, oldest: int = 1) -> None:
        super().__init__(inner)
        self.oldest = oldest
        self.events = 0

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        after = max(after, self.oldest - 1)
        page = await self.inner.read_events(tenant_id, run_id, after=after, limit=limit)
        self.events += len(page.events) if page is not None else 0
        return page if page is None else replace(page, oldest=self.oldest)


@in_virtual_time
async def old_cursor_is_refused(ports: Ports, runtime: SimRuntime) -> None:
    """Watch a run from before its oldest event: the watcher learns where it may go on."""
    store = await _long_run(runtime, commits=8)
    trimmed = ports.driver(_Trimmed(store, oldest=5), runtime)
    oldest = 0
    async with aclosing(_watch(ports, trimmed, runtime, after=2)) as batches:
        try:
            batch = await anext(batches)
            holds(False, "E6", "after 2 came", batch.events[0].number)
        except CursorOutOfRange as refused:
            oldest = refused.oldest
    holds(oldest == 5, "E6", "the oldest event is said to be", oldest)
    await store.close()


@in_virtual_time
async def stalled_watcher_holds_one_page(ports: Ports, runtime: SimRuntime) -> None:
    """Watch a long run and stop after one batch: no more than that is read from the store."""
    store = await _long_run(runtime, commits=PAGE_EVENTS_MAX)
    counting = _Trimmed(store)
    async with aclosing(_watch(ports, counting, runtime, after=0)) as batches:
        batch = await anext(batches)
        await runtime.sleep(60)
        held = counting.events
        holds(held <= len(batch.events), "E9", held, "events are held, of which one page was read")
    await store.close()


def _watch(
    ports: Ports, store: Store, runtime: SimRuntime, *, after: int
) -> AsyncGenerator[Batch, None]:
    watch = watch_run(
        store,
        Notifier(store, Rings(event_bytes, lambda _tenant_id, _run_id: 0, runtime)),
        runtime,
        tenant_id=TENANT,
        run_id="run",
        after=after,
        progress_ms=1_000,
    )
    return ports.watch(watch, store, TENANT, "run")


async def _long_run(runtime: SimRuntime, *, commits: int) -> Store:
    """Return a store with a run that was paused and resumed again and again."""
    store = await open_store("memory://", runtime=runtime)
    executor = Executor(store, runtime, CONFIG)
    await _start(executor, "run", 1)
    for _ in range(commits // 2):
        await executor.send(TENANT, "run", Pause())
        await executor.send(TENANT, "run", Resume())
    await executor.close()
    return store


# --- D3 ------------------------------------------------------------------------------------------------


def failed_sync_stops_the_store(ports: Ports) -> None:
    """Fail an fsync under SQLite: the commit is not acknowledged, nor is any other one after it."""
    asyncio.run(_failed_sync(ports))


async def _failed_sync(ports: Ports) -> None:
    runtime = SystemRuntime()
    with disk() as failing:
        url = f"sqlite:///{failing.folder / 'store.db'}"
        store = ports.driver(await open_store(url, runtime=runtime), runtime)
        await store.commit([b.created("before")])
        failing.fail(1, errno.EIO, ops=("FSYNC",))
        for run_id in ("with it", "after it"):
            with suppress(StoreError):
                await store.commit([b.created(run_id)])
                holds(not failing.counted().refused, "D3", run_id, "was acknowledged")
        assert failing.counted().refused == ["FSYNC"]
        failing.heal()
        with suppress(StoreError):
            await store.close()
