"""An asyncio event loop whose time is a number: when nothing can go on, it is simply later.

No thread, no socket, no waiting. `asyncio.timeout`, `sleep`, events and tasks work on it as on any
loop; what would need the world outside fails. A loop that has nothing scheduled has stalled, and
one that keeps turning without time passing spins: both raise instead of hanging.
"""

from __future__ import annotations

import asyncio
from typing import Any

SPINS_MAX = 20_000
"""Turns of the loop in one instant; more than any honest instant needs."""


class Stalled(Exception):
    """Nothing is ready and nothing is scheduled, so everything that still waits would never end."""


class Spinning(Exception):
    """The loop turns and turns, and no time passes."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation. Its time starts at 0."""

    _clock_resolution: float

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._clock_resolution = 1e-9
        self._selector = self
        self._spins = 0

    def time(self) -> float:
        """Return the seconds that have passed in the simulation."""
        return self.now

    # Never. Each future and each task asks, and nothing is false as fast as `bool` without an argument.
    get_debug = staticmethod(bool)  # pyright: ignore[reportAssignmentType] - called without one

    def select(self, timeout_s: float | None) -> list[Any]:
        """Let so much time pass: the loop asks for it once each turn, as it would ask a real selector."""
        if timeout_s is None:
            raise Stalled("nothing is scheduled any more")
        self._spins = 0 if timeout_s else self._spins + 1
        if self._spins > SPINS_MAX:
            self._spins = 0
            raise Spinning(f"{SPINS_MAX} turns at {self.now:.6f} s")
        self.now += timeout_s
        return []

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Refuse: a thread has no place in virtual time."""
        del executor, args
        raise RuntimeError(f"a simulation has no threads: {func!r}")

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: no socket has news."""

    def _write_to_self(self) -> None:
        """Do nothing: no thread waits for the loop."""
