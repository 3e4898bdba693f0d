"""Calls within steps: speed, CPU and bytes of a call that is recorded, and how soon a step has them again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.stage import Stage, World
from bench.works.chains import bytes_in
from bench.works.cpu import Cpu
from bench.works.times import share
from stepwell_client import RunStatus, Task


class Called(NamedTuple):
    """Figures of a call."""

    calls_per_second: float
    cpu_us: float
    """All processes together but the client, which only starts the runs and waits for them."""
    server_us: float
    worker_us: float
    database_us: float | None
    stored_kib: float | None
    """Growth of the file, for stores in one."""
    lone_ms: float
    """A call of one run, with nothing beside it: p50."""
    lone_p99_ms: float
    back_ms: float
    """From the moment that a step with many calls hands itself back to its having all of them again."""


@dataclass(frozen=True)
class Calls:
    """So many runs of one task each, which makes so many calls."""

    runs: int = 64
    calls: int = 50
    lone: int = 300
    entries: int = 1_000
    name: str = "calls"
    stores: Sequence[str] = ("sqlite", "postgres", "redis", "memory")
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Called]:
        world = await stage.shared()
        cpu = Cpu(world)
        size = bytes_in(world.place.database)
        begun = time.perf_counter()
        await asyncio.gather(*(self._run(world, self.calls) for _ in range(self.runs)))
        seconds = time.perf_counter() - begun
        calls = self.runs * self.calls
        server_us, worker_us, database_us = cpu.used(calls)
        stored = bytes_in(world.place.database) - size
        lone = await self._lone(world)
        return [
            Called(
                calls_per_second=calls / seconds,
                cpu_us=server_us + worker_us + (database_us or 0.0),
                server_us=server_us,
                worker_us=worker_us,
                database_us=database_us,
                stored_kib=stored / calls / 1024 if world.place.database else None,
                lone_ms=share(lone, 0.5) * 1e3,
                lone_p99_ms=share(lone, 0.99) * 1e3,
                back_ms=await self._back_ms(world),
            )
        ]

    async def _run(self, world: World, calls: int, *, returns: bool = False) -> None:
        task = Task("t", type="calls", input=(calls, returns))
        run = await (await world.client.start(plan=[task])).wait()
        assert run.status == RunStatus.SUCCEEDED

    async def _lone(self, world: World) -> list[float]:
        """Return the seconds of each call of one run, sorted."""
        world.worker.seen()
        await self._run(world, self.lone)
        return sorted(one.ended - one.begun for one in world.worker.seen().steps)

    async def _back_ms(self, world: World) -> float:
        world.worker.seen()
        await self._run(world, self.entries, returns=True)
        steps = world.worker.seen().steps
        left = max(one.ended for one in steps if one.attempt == 1)
        return (max(one.ended for one in steps if one.attempt > 1) - left) * 1e3
