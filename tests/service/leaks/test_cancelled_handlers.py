"""R1, S4: every handler is cancelled at every one of its awaits, and nothing of it is left but what it did.

For each RPC, on each kind of store, the call is made again and again, and cancelled at its first, second,
… suspension, until one comes through. After each: no task of it is left; the same call, made once more, is
answered; and the run's history is that of a call that nobody cut off: the operation was done wholly, once.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.service.leaks.bench import METHODS, Asked, Bench, Context, serving
from tests.service.leaks.cutting import Cut, Moment
from tests.service.leaks.requests import asked, furnish
from tests.service.zombies.world import PLACES
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale
from tests.unit.engine.executor_world import TENANT

IDLE_S = 0.25
"""A stream that does nothing for so long waits for something that doesn't come."""
SUSPENSIONS_MAX = 500
POOLED = ("stepwell-redis-read", "stepwell-redis-watch", "stepwell-postgres-watch")
POOLED_MAX = 12
"""Four connections of the pool and one that listens, with two tasks each; and a little."""
SEED = 20261122
KINDS = ("memory", "sqlite", "postgres", "redis", "remote")
PARTS = 1 if scale() is Scale.TEST else 6
"""Cases of each kind of store, with a share of the RPCs each."""
FEW = 4
"""At the smallest scale so many RPCs are played, others on each kind of store."""


def methods(kind: str, part: int) -> list[str]:
    """Return the RPCs to be played here."""
    drawn = Random(f"{SEED}/{kind}").sample(sorted(METHODS), len(METHODS))
    return drawn[:FEW] if scale() is Scale.TEST else drawn[part::PARTS]


class Noise:
    """Complaints of the event loop: an error that nobody retrieved, for one."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(self._note)

    def _note(self, _loop: Any, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")


@asynccontextmanager
async def bench_on(kind: str, folder: Path) -> AsyncIterator[Bench]:
    async with PLACES[kind](folder) as url, serving(url, folder) as server:
        bench = Bench(server)
        await furnish(bench)
        yield bench


async def cut(bench: Bench, method: str, asked: Asked, cutter: Cut) -> bool:
    """Make the call and cut it off; returns whether there was anything left to be cut."""
    inner = bench.serve(method, asked.requests, Context())
    call = asyncio.ensure_future(cutter.over(inner))
    # WaitRun is among those that come to their end: it is asked to wait for a moment only.
    endless = METHODS[method].server_streaming
    while not (await asyncio.wait((call,), timeout=IDLE_S if endless else PATIENCE_S))[0]:
        if cutter.struck:
            # It finishes what must be finished, within a limit.
            done, _ = await asyncio.wait((call,), timeout=PATIENCE_S)
            assert done, f"R1: {method} does not end when it is cancelled"
        else:
            # Cut off here it would have played fewer awaits than it has, and nobody would know.
            assert endless, f"R1: {method} has not ended by itself"
            call.cancel()
    if not call.cancelled() and call.exception() is not None:
        assert isinstance(call.exception(), grpc.aio.AbortError), call.exception()
    return cutter.struck


async def quiet(bench: Bench, before: set[asyncio.Task[Any]]) -> None:
    """Wait until every task that was started meanwhile is over: those of the call are among them."""
    left = [task for task in asyncio.all_tasks() - before if not _stays(task)]
    if left:
        _, left = await asyncio.wait(left, timeout=PATIENCE_S)
    assert not left, f"R1: left over: {left}"
    await bench.executor.quiet()


def _stays(task: asyncio.Task[Any]) -> bool:
    """Tell those of a pool's connections, whichever call made them be opened, and of gRPC's own server.

    That one has a task waiting for the next call of each method; behind a remote store it is in this process.
    """
    coroutine = task.get_coro()
    return task.get_name() in POOLED or getattr(coroutine, "__qualname__", "").startswith(
        "AioServer"
    )


async def again(bench: Bench, method: str, asked: Asked) -> str:
    """Make the same call once more; returns the run that it was about."""
    context = Context()
    call = asyncio.ensure_future(bench.serve(method, asked.requests, context))
    end = time.monotonic() + PATIENCE_S
    while not (await asyncio.wait((call,), timeout=0.01))[0]:
        assert time.monotonic() < end, f"R1: {method} isn't answered any more"
        if context.written and METHODS[method].server_streaming:
            # It may bring more, and be waited for in vain at last.
            await asyncio.wait((call,), timeout=IDLE_S)
            call.cancel()
    await bench.executor.quiet()
    assert context.code in asked.again, f"S16: {method} is answered {context.code}"
    if call.cancelled() or call.exception() is not None:
        return asked.run_id
    run = getattr(call.result(), "run", None)
    return run.spec.run_id if run is not None else asked.run_id


async def story(bench: Bench, run_id: str) -> list[str]:
    """Return what happened to a run, once each, without gaps; a run that is gone has no story."""
    page = await bench.store.read_events(TENANT, run_id, after=0, limit=1_000) if run_id else None
    if page is None:
        return []
    assert [event.number for event in page.events] == list(range(1, page.latest + 1)), "E1"
    run = await bench.store.get_run(TENANT, run_id)
    assert run is not None
    assert run.version == page.events[-1].version, (
        "S1: the row and its events are not of one commit"
    )
    return [f"{event.type} {event.task_id}" for event in page.events]


@pytest.mark.proof
@pytest.mark.usefixtures("backends")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(PARTS))
async def test_R1_handler_cancelled_at_any_await_leaves_nothing_behind(
    kind: str, part: int, tmp_path: Path
) -> None:
    since = time.monotonic()
    figures = Counter[str]()
    noise = Noise()
    async with bench_on(kind, tmp_path) as bench:
        for method in methods(kind, part):
            began = time.monotonic()
            for moment in Moment:
                figures["cancelled awaits"] += await at_every_await(bench, method, moment)
            print(f"{method}: {time.monotonic() - began:.1f} s")
            figures["RPCs"] += 1
        pooled = sum(task.get_name() in POOLED for task in asyncio.all_tasks())
        assert pooled <= POOLED_MAX, f"R1: {pooled} tasks of connections"
        gc.collect()
        await asyncio.sleep(0)
        assert not noise.complaints
    print(f"{kind}: {dict(figures)}")
    record.keep(
        record.Record(
            proof=f"cancelled handlers, {kind}",
            command="make proof ARGS='-k cancelled_at_any_await'",
            figures=figures,
            seconds=time.monotonic() - since,
            seed=str(SEED),
        )
    )


async def at_every_await(bench: Bench, method: str, moment: Moment) -> int:
    """Cut the call at each suspension in turn; returns how many there were."""
    before = asyncio.all_tasks()
    call = await asked(bench, method)
    await cut(bench, method, call, Cut(0, moment))
    await quiet(bench, before)
    wanted = await story(bench, await again(bench, method, call))
    for at in range(1, SUSPENSIONS_MAX):
        call = await asked(bench, method)
        before = asyncio.all_tasks()
        if not await cut(bench, method, call, Cut(at, moment)):
            return at - 1
        await quiet(bench, before)
        came_to = await story(bench, await again(bench, method, call))
        assert came_to == wanted, f"S4: {method}, cut {moment} its {at}th await, came to {came_to}"
    raise AssertionError(f"{method} never ends")
