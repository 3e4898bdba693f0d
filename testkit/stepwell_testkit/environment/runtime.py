"""A runtime whose time runs normally and can be made to jump: an hour passes at once."""

from __future__ import annotations

import asyncio
from itertools import count

from stepwell.core.loop.retry import chance_of
from stepwell.runtime import SystemRuntime


class SkippingRuntime(SystemRuntime):
    """The `Runtime` port of an environment. Random numbers come from a seed; ids don't."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._seed = seed
        self._draws = count()
        self._skipped_us = 0
        self._sleepers: dict[asyncio.Future[None], float] = {}

    def now_us(self) -> int:
        """Return the wall clock, including skipped time."""
        return super().now_us() + self._skipped_us

    def monotonic(self) -> float:
        """Return monotonic seconds, including skipped time."""
        return super().monotonic() + self._skipped_us / 1_000_000

    def random(self) -> float:
        """Return the seed's next number in [0, 1)."""
        return chance_of(self._seed, str(next(self._draws)))

    async def sleep(self, seconds: float) -> None:
        """Wait until this much time has passed, or was skipped."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[sleeper] = self.monotonic() + seconds
        try:
            await asyncio.wait([sleeper], timeout=max(0.0, seconds))
        finally:
            self._sleepers.pop(sleeper, None)

    def skip(self, ms: float) -> None:
        """Let this much time pass at once, and wake those who slept until then."""
        if ms < 0:
            raise ValueError("time goes forward only")
        self._skipped_us += round(ms * 1_000)
        now = self.monotonic()
        for sleeper, until in tuple(self._sleepers.items()):
            if until <= now and not sleeper.done():
                sleeper.set_result(None)
