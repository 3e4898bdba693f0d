"""Parked runs beside those that move: a claim and a start among many that wait, against an empty store.

Half of the parked runs have a ready step in a queue that nobody serves, half wait for a timer that is
far away. Their commits come from the real loop and go to the store directly. The empty store and the full one are
measured in turn.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import NamedTuple

from bench.machine import resident_mb
from bench.plans import chain
from bench.stage import Stage, World, running
from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import Start
from stepwell.core.loop.state import RunState
from stepwell.core.port import Claim, Commit, Store, Want
from stepwell.core.records.model import RunSpec, TaskSpec
from stepwell.core.records.states import StepKind, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store

GROUP = 128
GROUPS_AT_ONCE = 4
FAR_MS = 30 * 24 * 3_600_000
TENANT = "default"
NOBODY_S = "parked"
_WANT = Want(tenant_id=TENANT, queues=("default",), kinds=tuple(StepKind), limit=32)


class Costs(NamedTuple):
    """Costs beside parked runs, and by those on an empty store."""

    claim: float
    start: float
    claim_ms: float
    start_ms: float
    resident: float


@dataclass(frozen=True)
class Parked:
    """So many parked runs; in each round so many calls on either store."""

    runs: int = 100_000
    calls: int = 30
    rounds: int = 5
    name: str = "parked"
    stores: Sequence[str] = ("sqlite", "postgres", "redis")
    once: bool = True

    async def measure(self, stage: Stage) -> Sequence[Costs]:
        if stage.backend.name == "memory":
            raise SystemExit("parked runs need a store that outlives its server; try grpc:memory")
        await stage.close()
        with stage.backend.fresh() as empty, stage.backend.fresh() as full:
            async with AsyncExitStack() as stack:
                opened: list[Store] = []
                for place in (empty, full):
                    opened.append(await open_store(place.url, runtime=SystemRuntime()))
                    stack.push_async_callback(opened[-1].close)
                await _park(opened[1], self.runs)
                claims = await in_turn(
                    [claiming(store) for store in opened], self.calls, self.rounds
                )
            async with AsyncExitStack() as stack:
                worlds = [
                    await stack.enter_async_context(running(stage.backend, place))
                    for place in (empty, full)
                ]
                starts = await in_turn(
                    [_starting(world) for world in worlds], self.calls, self.rounds
                )
                memory = [resident_mb(world.server.pid) for world in worlds]
        return [
            Costs(
                claim=claim[1] / claim[0],
                start=start[1] / start[0],
                claim_ms=claim[1],
                start_ms=start[1],
                resident=memory[1] / memory[0],
            )
            for claim, start in zip(claims, starts, strict=True)
        ]


async def in_turn(
    calls: Sequence[Callable[[], Awaitable[float]]], count: int, rounds: int
) -> list[list[float]]:
    """Return, for each round, each call's median of so many in milliseconds; the calls take turns."""
    return [
        [statistics.median(times) * 1e3 for times in zip(*taken, strict=True)]
        for taken in [
            [[await call() for call in calls] for _ in range(count)] for _ in range(rounds)
        ]
    ]


def claiming(store: Store) -> Callable[[], Awaitable[float]]:
    """Return a claim that finds nothing, timed."""

    async def claim() -> float:
        begun = time.perf_counter()
        await store.claim(Claim(wants=(_WANT,)))
        return time.perf_counter() - begun

    return claim


def _starting(world: World) -> Callable[[], Awaitable[float]]:
    """A start of a run of one step, timed; the run has ended when it returns."""

    async def start() -> float:
        begun = time.perf_counter()
        handle = await world.client.start(plan=chain(1))
        seconds = time.perf_counter() - begun
        await handle.wait()
        return seconds

    return start


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


async def _park(store: Store, count: int) -> None:
    runtime = SystemRuntime()
    places = iter(range(0, count, GROUP))

    async def some() -> None:
        for at in places:
            commits = [_commit(runtime, number) for number in range(at, min(at + GROUP, count))]
            results = await store.commit(commits)
            assert all(result.verdict is Verdict.COMMITTED for result in results)

    await asyncio.gather(*(some() for _ in range(GROUPS_AT_ONCE)))
