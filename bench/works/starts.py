"""StartRun: its CPU in the server, and how long a large one makes others wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.plans import chain, independent
from bench.processes import PingProcess, cpu_seconds
from bench.stage import Stage, World

SETTLED_S = 0.1
"""Pause after which the server has done what follows its answer."""
NOBODY_S = "nobody"
"""Queue without a worker."""


class Started(NamedTuple):
    """CPU of the server for one start, and the longest call meanwhile."""

    one_ms: float
    together_ms: float
    large_ms: float
    held_ms: float


@dataclass(frozen=True)
class Starts:
    """So many starts of small plans, and one of a large one."""

    count: int = 64
    tasks: int = 50
    large: int = 10_000
    name: str = "starts"
    stores: Sequence[str] = ("sqlite", "memory")
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Started]:
        world = await stage.shared()

        async def start() -> None:
            await world.client.start(plan=chain(self.tasks), queue=NOBODY_S)

        async with _Cpu(world) as one:
            for _ in range(self.count):
                await start()
        async with _Cpu(world) as together:
            await asyncio.gather(*(start() for _ in range(self.count)))
        pings = PingProcess(world.server.target, world.place.folder)
        plan = independent(self.large)
        begun = time.monotonic()
        async with _Cpu(world) as large:
            await world.client.start(plan=plan, queue=NOBODY_S)
        waits = await asyncio.to_thread(pings.stop_and_read)
        return [
            Started(
                one_ms=one.ms / self.count,
                together_ms=together.ms / self.count,
                large_ms=large.ms,
                held_ms=max(ms for at, ms in waits if at + ms / 1e3 >= begun),
            )
        ]


class _Cpu:
    """CPU that the server uses while this is open."""

    def __init__(self, world: World) -> None:
        self._pid = world.server.pid
        self._before = 0.0
        self.ms = 0.0

    async def __aenter__(self) -> _Cpu:
        self._before = cpu_seconds(self._pid)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(SETTLED_S)
        self.ms = (cpu_seconds(self._pid) - self._before) * 1e3
