"""One run of tasks that don't wait for one another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.plans import independent
from bench.stage import Stage
from stepwell_client import RunStatus


class Speed(NamedTuple):
    """Speed of the run, its start included."""

    steps_per_second: float


@dataclass(frozen=True)
class Wide:
    """One run of so many independent tasks."""

    tasks: int = 500
    at_once: int = 32
    name: str = "wide"
    stores: Sequence[str] = ("sqlite", "postgres", "redis", "memory")
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Speed]:
        world = await stage.shared()
        plan = independent(self.tasks)
        begun = time.perf_counter()
        handle = await world.client.start(plan=plan, max_parallel=self.at_once)
        run = await handle.wait()
        assert run.status == RunStatus.SUCCEEDED
        return [Speed(self.tasks / (time.perf_counter() - begun))]
