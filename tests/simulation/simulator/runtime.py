"""The `Runtime` of one simulated process: virtual time, random numbers from the seed, tasks that die with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stepwell.runtime import SystemRuntime
from tests.simulation.simulator.rng import Rng

START_US = 1_700_000_000_000_000
"""The wall clock's reading when a simulation starts."""

T = TypeVar("T")


class SimRuntime(SystemRuntime):
    """One process of the simulation. Its wall clock may be wrong; its monotonic clock is not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Rng, *, skew_us: int = 0) -> None:
        super().__init__()
        self.loop = loop
        self._rng = rng
        self.skew_us = skew_us
        self.dead = False
        self._alive: dict[asyncio.Task[Any], None] = {}

    def now_us(self) -> int:
        """Return this process's wall clock."""
        return START_US + self.skew_us + round(self.loop.time() * 1_000_000)

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return self.loop.time()

    def new_id(self) -> str:
        """Return the next UUID of this process's stream."""
        digits = self.new_token()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def new_token(self) -> str:
        """Return the next 128 bits of this process's stream, in hex."""
        return f"{self._rng.bits():016x}{self._rng.bits():016x}"

    def random(self) -> float:
        """Return the next number of this process's stream in [0, 1)."""
        return self._rng.random()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run it until it ends or the process is killed; a dead process starts nothing."""
        task = self.loop.create_task(work, name=name)
        if self.dead:
            task.cancel()
        self._alive[task] = None
        task.add_done_callback(self._alive.pop)
        return task

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = self.loop
        over = loop.create_future()
        timer = loop.call_at(loop.time() + seconds, wake, over)
        try:
            await over
        except asyncio.CancelledError:
            timer.cancel()
            raise

    def later(
        self, seconds: float, act: Callable[..., None], *arguments: object
    ) -> asyncio.TimerHandle:
        """Have something done in so many seconds, by the world and not by this process."""
        return self.loop.call_at(self.loop.time() + seconds, act, *arguments)

    def kill(self) -> None:
        """End the process as `kill -9` does: every task of it stops where it stands."""
        self.dead = True
        for task in tuple(self._alive):
            task.cancel()


def wake(sleeper: asyncio.Future[Any]) -> None:
    """Wake the waiter, if it still waits."""
    if not sleeper.done():
        sleeper.set_result(None)
