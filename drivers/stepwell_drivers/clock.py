"""The clock of a store that has no server to ask: it only goes forward.

Stored deadlines are stamped by this clock and compared with it alone. It starts at the wall clock's
time when the store is opened and counts by the monotonic clock, so that setting the wall clock
while the store is open changes nothing. At a restart, `at_least` raises it above every stored time.
"""

from __future__ import annotations

from stepwell.core.port import Runtime


class StoreClock:
    """Microseconds since 1970 that never go backwards, made from the `Runtime` alone."""

    __slots__ = ("_base_us", "_last_us", "_runtime", "_started")

    def __init__(self, runtime: Runtime, *, at_least_us: int = 0) -> None:
        self._runtime = runtime
        self._base_us = runtime.now_us()
        self._started = runtime.monotonic()
        self._last_us = 0
        self.at_least(at_least_us)

    def now_us(self) -> int:
        """Return the store's time, never less than it returned before."""
        # Rounded because truncating float seconds would lose a microsecond now and then.
        passed_us = round((self._runtime.monotonic() - self._started) * 1_000_000)
        self._last_us = max(self._last_us, self._base_us + passed_us)
        return self._last_us

    def at_least(self, us: int) -> None:
        """Continue from `us` if that is later than now.

        Called with the last stored time when a store is opened. The clock runs on from there at
        once: if it waited for the wall clock to catch up, every timer would stop until then.
        """
        behind_us = us - self.now_us()
        if behind_us > 0:
            self._base_us += behind_us
