"""The clock of a database server: it may be set, forth and back, while the service goes on.

The memory store's own clock never steps, as no store does that has its process's monotonic clock. A
server's does. So a simulation has this one in its place, and every deadline is written and compared by it.
"""

from __future__ import annotations

from stepwell.core.port import Store
from tests.simulation.simulator.runtime import SimRuntime


class ServerClock:
    """Microseconds since 1970; `step` sets it."""

    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime
        self.offset_us = 0
        self._latest_us = 0
        """The latest that it showed when it was set."""

    @property
    def behind_s(self) -> float:
        """For how long it won't show again what it has shown: a deadline of then may lie that far off."""
        return max(0, self._latest_us - self.now_us()) / 1_000_000

    def now_us(self) -> int:
        """Return what it shows."""
        return self._runtime.now_us() + self.offset_us

    def step(self, seconds: float) -> None:
        """Set it forth, or back where that is negative."""
        self._latest_us = max(self._latest_us, self.now_us())
        self.offset_us += round(seconds * 1_000_000)


def set_clock(store: Store, clock: ServerClock) -> None:
    """Have a memory store go by this clock."""
    setattr(getattr(store, "_kept"), "clock", clock)  # noqa: B009, B010 - a private part of the driver
