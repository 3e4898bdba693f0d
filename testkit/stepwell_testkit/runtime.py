"""A runtime whose clocks are moved by hand and whose ids, tokens and random numbers come from a seed."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
from itertools import count

from stepwell.runtime import SystemRuntime

_BIRTH_US = 1_700_000_000_000_000


class ManualRuntime(SystemRuntime):
    """The `Runtime` port for tests: time stands still until `advance`, and the same seed gives the same ids.

    Tasks are spawned on the running event loop; `sleep` waits until the clock was moved far enough.
    """

    def __init__(self, seed: int | str = 0, *, start_us: int = _BIRTH_US) -> None:
        super().__init__()
        self.seed = seed
        self._wall_us = start_us
        self._passed_us = 0
        self._draws = count()
        self._orders = count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now_us(self) -> int:
        """Return the wall clock as it was last set."""
        return self._wall_us

    def monotonic(self) -> float:
        """Return the sum of the advanced time, in seconds."""
        return self._passed_us / 1_000_000

    def advance(self, ms: float) -> None:
        """Move both clocks forward and wake those who slept until then, the earliest first."""
        if ms < 0:
            raise ValueError("time goes forward; the wall clock alone is set with step_wall")
        moved_us = round(ms * 1_000)
        self._wall_us += moved_us
        self._passed_us += moved_us
        while self._sleepers and self._sleepers[0][0] <= self._passed_us:
            _, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                sleeper.set_result(None)

    def step_wall(self, ms: float) -> None:
        """Set the wall clock alone, forward or back, as an operator or NTP may do."""
        self._wall_us += round(ms * 1_000)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved far enough."""
        until_us = self._passed_us + round(seconds * 1_000_000)
        sleeper = asyncio.get_running_loop().create_future()
        if seconds <= 0:
            asyncio.get_running_loop().call_soon(_wake, sleeper)
        else:
            heapq.heappush(self._sleepers, (until_us, next(self._orders), sleeper))
        await sleeper

    def new_id(self) -> str:
        """Return the seed's next UUID, as text."""
        digits = self._draw()[:32]
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def new_token(self) -> str:
        """Return the seed's next 128 bits in hex."""
        return self._draw()[:32]

    def random(self) -> float:
        """Return the seed's next number in [0, 1)."""
        return int(self._draw()[:13], 16) / 16**13

    def below(self, end: int) -> int:
        """Return the seed's next whole number in [0, end)."""
        return int(self.random() * end)

    def _draw(self) -> str:
        return hashlib.sha256(f"{self.seed}/{next(self._draws)}".encode()).hexdigest()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
