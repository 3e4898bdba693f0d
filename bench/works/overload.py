"""More runs offered than can be done: the peak with ever the same number of runs, then twice and five times as many.

What is offered doesn't wait: a run is started at its moment, whether or not those before it have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.plans import chain
from bench.stage import Stage, World
from stepwell_client import StepwellClientError

LEASE_MS = 3_000
"""A lease that waits in a crowd for longer is lost, within the time of this work."""


class Goodput(NamedTuple):
    """Steps done under overload."""

    peak: float
    twice: float
    five_times: float
    offered: float
    """Runs that were really offered at five times the peak, by the peak: the client has the same cores."""
    leases_lost: float


class _Done(NamedTuple):
    """Steps in a second under a load, and leases that were lost meanwhile."""

    speed: float
    lost: int


@dataclass(frozen=True)
class Overload:
    """So many runs at once for the peak; each load goes on for so long, after a while to settle."""

    runs: int = 64
    steps: int = 50
    settle_s: float = 1.0
    seconds: float = 5.0
    name: str = "overload"
    stores: Sequence[str] = ("sqlite",)
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Goodput]:
        async with stage.alone(lease_ms=LEASE_MS) as world:
            closed = asyncio.gather(*(self._one_after_another(world) for _ in range(self.runs)))
            peak, lost = await self._under(world, closed)
        speeds: list[float] = []
        offered = 0.0
        for factor in (2, 5):
            async with stage.alone(lease_ms=LEASE_MS) as world:
                offering = _Offering(world, self.steps, peak * factor / self.steps)
                begun = time.monotonic()
                done = await self._under(world, asyncio.ensure_future(offering.go_on()))
                offered = offering.offered * self.steps / (time.monotonic() - begun) / peak
                speeds.append(done.speed / peak)
                lost += done.lost
        return [Goodput(peak, *speeds, offered=offered, leases_lost=lost)]

    async def _one_after_another(self, world: World) -> None:
        while True:
            await (await world.client.start(plan=chain(self.steps))).wait()

    async def _under(self, world: World, load: asyncio.Future[Any]) -> _Done:
        """Return what the worker does under a load, once that has settled; then end the load."""
        try:
            await asyncio.sleep(self.settle_s)
            before = await asyncio.to_thread(world.worker.seen)
            await asyncio.sleep(self.seconds)
            seen = await asyncio.to_thread(world.worker.seen)
        finally:
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load
        # By the worker's own clock: the client may be held up. No step fails here, so whatever is no first
        # attempt follows a lease that was lost.
        lost = sum(step.attempt > 1 for step in (*before.steps, *seen.steps))
        return _Done(len(seen.steps) / seen.seconds, lost)


class _Offering:
    """Starts runs at a rate, whatever their outcome."""

    def __init__(self, world: World, steps: int, runs_per_second: float) -> None:
        self._world = world
        self._plan = chain(steps)
        self._pause_s = 1 / runs_per_second
        self.offered = 0

    async def go_on(self) -> None:
        """Offer until cancelled; what a server hasn't answered by then is dropped."""
        async with asyncio.TaskGroup() as group:
            due = time.monotonic()
            while True:
                while due <= time.monotonic():
                    group.create_task(self._start())
                    due += self._pause_s
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _start(self) -> None:
        self.offered += 1
        # A refusal is an answer too: the client has asked again for as long as it does.
        with suppress(StepwellClientError):
            await self._world.client.start(plan=self._plan)
