"""One run, step after step: how soon the next step comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.plans import chain
from bench.stage import Stage
from bench.works.times import share, turnarounds


class Turnaround(NamedTuple):
    """Time from a step's outcome to the start of the next."""

    p50_ms: float
    p99_ms: float
    p99_by_p50: float


@dataclass(frozen=True)
class Lone:
    """One run of so many steps in sequence."""

    steps: int = 300
    name: str = "lone"
    stores: Sequence[str] = ("sqlite", "postgres", "redis", "memory")
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Turnaround]:
        world = await stage.shared()
        world.worker.seen()
        await (await world.client.start(plan=chain(self.steps))).wait()
        times = turnarounds(world.worker.seen().steps)
        p50, p99 = share(times, 0.5) * 1e3, share(times, 0.99) * 1e3
        return [Turnaround(p50, p99, p99 / p50)]
