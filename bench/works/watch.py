"""Many streams that watch one run while events come at a steady rate.

The run's steps end at their moments, whether or not the server keeps up, because enough steps are
leased ahead. The delay of an event goes from the moment at which the server decided it to the
moment at which a reader, in a process of its own, has the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from bench.machine import peak_mb
from bench.plans import paced
from bench.processes import Arrival, ReaderProcess, cpu_seconds
from bench.stage import Stage, World
from bench.works.times import share
from stepwell_client import RunHandle

READERS = 2
AHEAD = 64
"""Steps that are leased at a time."""


class Watched(NamedTuple):
    """Figures of all streams."""

    wrong: float
    """Streams that lack an event, or got one twice or out of order."""
    p50_ms: float
    p99_ms: float
    peak_mb: float
    events_per_second: float
    messages_per_second: float
    """Messages to one stream."""
    cpu_us: float
    """CPU of the server for one event to one stream."""


@dataclass(frozen=True)
class Watch:
    """So many streams, and steps of two events each at a rate for so long."""

    streams: int = 1_000
    steps_per_second: int = 50
    seconds: float = 10.0
    name: str = "watch"
    stores: Sequence[str] = ("sqlite",)
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Watched]:
        async with stage.alone() as world:
            steps = int(self.steps_per_second * self.seconds)
            plan = paced(steps, self.steps_per_second)
            handle = await world.client.start(plan=plan, max_parallel=AHEAD)
            await world.worker.reached_gate("gate")
            after = (await handle.get()).last_event
            with ExitStack() as stack:
                readers = [
                    await self._reader(stack, world, number, handle.id, after)
                    for number in range(READERS)
                ]
                cpu = cpu_seconds(world.server.pid)
                world.worker.open_gate("gate")
                read = [await asyncio.to_thread(reader.read) for reader in readers]
                cpu = cpu_seconds(world.server.pid) - cpu
            stories = [story for own in read for story in own]
            made = await _made(handle, after)
            seconds = max(made.values()) - min(made.values())
            delays = _delays(stories, made)
            return [
                Watched(
                    wrong=sum(_numbers(story) != list(made) for story in stories),
                    p50_ms=share(delays, 0.5) * 1e3,
                    p99_ms=share(delays, 0.99) * 1e3,
                    peak_mb=peak_mb(world.server.pid),
                    events_per_second=len(made) / seconds,
                    messages_per_second=sum(map(len, stories)) / len(stories) / seconds,
                    cpu_us=cpu / (len(made) * len(stories)) * 1e6,
                )
            ]

    async def _reader(
        self, stack: ExitStack, world: World, number: int, run_id: str, after: int
    ) -> ReaderProcess:
        """Start a reader; return when its streams stand."""
        reader = await asyncio.to_thread(
            ReaderProcess,
            world.server.target,
            world.place.folder,
            f"reader-{number}",
            run_id=run_id,
            after=after,
            streams=self.streams // READERS,
        )
        stack.callback(reader.stop)
        return reader


async def _made(handle: RunHandle, after: int) -> dict[int, float]:
    """Return the seconds at which each event of an ended run was decided, by its number."""
    async with handle.watch(after) as events:
        times = {event.number: event.time async for event in events}
    return {number: time.timestamp() for number, time in times.items() if time is not None}


def _delays(stories: Sequence[Sequence[Arrival]], made: Mapping[int, float]) -> list[float]:
    """Return the seconds from each event to each stream, the shortest first."""
    return sorted(
        arrival.at - made[number]
        for story in stories
        for arrival in story
        for number in arrival.numbers
    )


def _numbers(story: Sequence[Arrival]) -> list[int]:
    return [number for arrival in story for number in arrival.numbers]
