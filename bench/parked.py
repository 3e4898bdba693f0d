"""Do parked runs cost those that move? A claim, and a start, beside 100 to 100,000 runs that wait.

Half of the parked runs have a ready step in a queue that nobody serves, half wait for a timer that is
far away. Their commits come from the real loop and go to the store directly.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from bench.backends import Place
from bench.processes import running
from bench.scenarios import Write, chain
from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.signals import Start
from stepwell.core.loop.state import RunState
from stepwell.core.port import ClaimRequest, Commit, Store, Want
from stepwell.core.records.model import RunSpec, TaskSpec
from stepwell.core.records.states import StepKind, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import Client

MARKS = (100, 1_000, 10_000, 100_000)
ROUNDS = 60
GROUP = 128
GROUPS_AT_ONCE = 4
FAR_MS = 30 * 24 * 3_600_000
TENANT = "default"
NOBODY_S = "parked"


async def parked(place: Place, folder: Path, write: Write, *, most: int) -> None:
    """Park runs in steps of ten; after each, time claims on the store and starts on a server."""
    write(f"{'parked runs':<16}{'claim, ms':>14}{'start, ms':>22}{'start to done, ms':>24}")
    first: list[float] = []
    there = 0
    for mark in (mark for mark in MARKS if mark <= most):
        store = await open_store(place.url, runtime=SystemRuntime())
        try:
            await _park(store, there, mark)
            claim = await _claims(store)
        finally:
            await store.close()
        there = mark
        own = folder / str(mark)
        await asyncio.to_thread(own.mkdir)
        figures = [claim, *await _starts(place, own)]
        first = first or figures
        cells = [
            f"{ms:>14.2f} {ms / base:>5.2f} ×" for ms, base in zip(figures, first, strict=True)
        ]
        write(f"{mark:<16,}" + " ".join(cells))


def _commit(runtime: SystemRuntime, number: int) -> Commit:
    waits = number % 2 == 1
    spec = RunSpec(
        tenant_id=TENANT,
        run_id=runtime.new_id(),
        pipeline_id="parked",
        queue=NOBODY_S,
        goal="Wait",
        start_delay_ms=FAR_MS if waits else 0,
    )
    start = Start(spec=spec, plan=(TaskSpec(task_id="a", type="wait"),))
    state = RunState.empty(TENANT, spec.run_id)
    context = Context(commit_id=runtime.new_id(), now_us=runtime.now_us())
    commit = advance(state, [start], context).commit
    assert commit is not None, "a start makes a commit"
    return commit


async def _park(store: Store, start: int, end: int) -> None:
    runtime = SystemRuntime()
    places = iter(range(start, end, GROUP))

    async def some() -> None:
        for at in places:
            commits = [_commit(runtime, number) for number in range(at, min(at + GROUP, end))]
            results = await store.commit(commits)
            assert all(result.verdict is Verdict.COMMITTED for result in results)

    await asyncio.gather(*(some() for _ in range(GROUPS_AT_ONCE)))


async def _claims(store: Store) -> float:
    """Return the median of a claim that finds nothing, in milliseconds."""
    want = Want(
        tenant_id=TENANT,
        queues=("default",),
        kinds=tuple(StepKind),
        limit=32,
    )
    times: list[float] = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        await store.claim(ClaimRequest(wants=(want,)))
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


async def _starts(place: Place, folder: Path) -> tuple[float, float]:
    """Return the medians of StartRun, and of a run of one step from its start to its end."""
    starts: list[float] = []
    wholes: list[float] = []
    with running(place.url, folder) as (server, _):
        async with Client(server.target, token_file=folder / "state/stepwell/token") as client:
            warm = await client.start(plan=chain(20))
            await warm.wait()
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                handle = await client.start(plan=chain(1))
                starts.append(time.perf_counter() - begun)
                await handle.wait()
                wholes.append(time.perf_counter() - begun)
    return statistics.median(starts) * 1e3, statistics.median(wholes) * 1e3
