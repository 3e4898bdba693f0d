"""Runs that talk: a signal to a suspended step, a child run of one task, and many children of one parent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.stage import Stage, World
from bench.works.times import share
from stepwell_client import Run, RunStatus, Task

PAUSE_S = 0.01
"""Pause between looks at a run that is to be suspended."""


class Talked(NamedTuple):
    """Times of signals and child runs."""

    signal_ms: float
    """From the call that sends a signal to the start of the suspended step's function: p50."""
    signal_p99_ms: float
    child_ms: float
    """From the call that starts a child run of one task to the parent's going on with its result: p50."""
    child_p99_ms: float
    children_s: float
    """A run of one task that starts many children at once, from its start to its end."""


@dataclass(frozen=True)
class Talks:
    """So many signals to one run, so many children of one run in turn, and so many of one run at once."""

    signals: int = 50
    in_turn: int = 100
    at_once: int = 1_000
    name: str = "talks"
    stores: Sequence[str] = ("sqlite", "postgres", "redis")
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Talked]:
        world = await stage.shared()
        signals = await self._signals(world)
        children = await self._children(world)
        begun = time.monotonic()
        await _ended(world, "children", self.at_once)
        return [
            Talked(
                signal_ms=share(signals, 0.5) * 1e3,
                signal_p99_ms=share(signals, 0.99) * 1e3,
                child_ms=share(children, 0.5) * 1e3,
                child_p99_ms=share(children, 0.99) * 1e3,
                children_s=time.monotonic() - begun,
            )
        ]

    async def _signals(self, world: World) -> list[float]:
        """Return the seconds from each signal to the next attempt at the step, sorted."""
        world.worker.seen()
        run = await world.client.start(plan=[Task("t", type="receives", input=self.signals)])
        sent: list[float] = []
        for _ in range(self.signals):
            while (await run.get()).status is not RunStatus.WAITING:  # noqa: ASYNC110 - the server says it
                await asyncio.sleep(PAUSE_S)
            sent.append(time.monotonic())
            await run.signal("go")
        _check(await run.wait())
        attempts = sorted(one.begun for one in world.worker.seen().steps)
        return sorted(again - before for before, again in zip(sent, attempts[1:], strict=True))

    async def _children(self, world: World) -> list[float]:
        """Return the seconds of each child run as its parent sees them, sorted."""
        world.worker.seen()
        await _ended(world, "parent", self.in_turn)
        steps = world.worker.seen().steps
        return sorted(one.ended - one.begun for one in steps if one.task_id.startswith("child"))


async def _ended(world: World, type_: str, count: int) -> None:
    """Play a run of one task of a type."""
    run = await world.client.start(plan=[Task("t", type=type_, input=count)])
    _check(await run.wait())


def _check(run: Run) -> None:
    assert run.status is RunStatus.SUCCEEDED, run.failure
