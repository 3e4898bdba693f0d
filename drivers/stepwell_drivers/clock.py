"""The clock of a store that has no server to ask: time that only goes forward.

A store stamps deadlines and compares them, and no other clock may decide what is due. Its time
is the wall clock of the moment when it was opened, carried on by the monotonic clock: a wall clock
that is set back or forth while the store is open moves nothing. Over a restart, `at_least` raises it
above whatever was stored before.
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
        """Return the store's time: not below any that it returned before."""
        # Rounded, not cut: seconds as floats would else lose a microsecond now and then.
        passed_us = round((self._runtime.monotonic() - self._started) * 1_000_000)
        self._last_us = max(self._last_us, self._base_us + passed_us)
        return self._last_us

    def at_least(self, us: int) -> None:
        """Go on from `us` where that is later than now; where it isn't, change nothing.

        Called with the last stored time when a store is opened. The clock then runs on from there: a
        clock that waited for the wall clock to catch up would stop every timer until it did.
        """
        behind_us = us - self.now_us()
        if behind_us > 0:
            self._base_us += behind_us
