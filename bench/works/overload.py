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
from bench.processes import Seen
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


@dataclass(frozen=True)
class Overload:
    """So many runs at once for the peak; each load goes on for so long, after a while to settle."""

    runs: int = 64
    steps: int = 50
    settle_s: float = 1.0
    seconds: float = 3.0
    name: str = "overload"
    stores: Sequence[str] = ("sqlite",)
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Goodput]:
        lost = 0
        async with stage.alone(lease_ms=LEASE_MS) as world:
            closed = asyncio.gather(*(self._one_after_another(world) for _ in range(self.runs)))
            seen = await self._seen_under(world, closed)
            peak = len(seen.steps) / self.seconds
            lost += _lost(seen)
        speeds: list[float] = []
        offered = 0.0
        for factor in (2, 5):
            async with stage.alone(lease_ms=LEASE_MS) as world:
                offering = _Offering(world, self.steps, peak * factor / self.steps)
                seen = await self._seen_under(world, asyncio.ensure_future(offering.go_on()))
                speeds.append(len(seen.steps) / self.seconds / peak)
                offered = offering.offered * self.steps / (self.settle_s + self.seconds) / peak
                lost += _lost(seen)
        return [Goodput(peak, *speeds, offered=offered, leases_lost=lost)]

    async def _one_after_another(self, world: World) -> None:
        while True:
            await (await world.client.start(plan=chain(self.steps))).wait()

    async def _seen_under(self, world: World, load: asyncio.Future[Any]) -> Seen:
        """Return what the worker does under a load, once that has settled; then end the load."""
        try:
            await asyncio.sleep(self.settle_s)
            await asyncio.to_thread(world.worker.seen)
            await asyncio.sleep(self.seconds)
            return await asyncio.to_thread(world.worker.seen)
        finally:
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load


def _lost(seen: Seen) -> int:
    """Return how many attempts were not the first: no step fails here, so a lease was lost before."""
    return sum(step.attempt > 1 for step in seen.steps)


class _Offering:
    """Starts runs at a rate, whatever becomes of them."""

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
                    self.offered += 1
                    due += self._pause_s
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _start(self) -> None:
        # A refusal is an answer too: the client has asked again for as long as it does.
        with suppress(StepwellClientError):
            await self._world.client.start(plan=self._plan)
