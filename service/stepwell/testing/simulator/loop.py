"""An asyncio event loop whose time is a number: when nothing can go on, it is simply later.

No thread, no socket, no waiting. `asyncio.timeout`, `sleep`, events and tasks work on it as on any
loop; what would need the world outside fails. A loop that has nothing scheduled has stalled, and one
that turns for ever without time passing spins: both raise instead of hanging.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

SPINS_MAX = 20_000
"""Turns of the loop in one instant; more than any honest instant needs."""


class Stalled(Exception):
    """Nothing is ready and nothing is scheduled: whoever still waits will wait for ever."""


class Spinning(Exception):
    """The loop turns and turns, and no time passes."""


class _Idle:
    """In the place of a selector: it waits for nothing and moves the clock instead."""

    def __init__(self) -> None:
        self.now = 0.0
        self._spins = 0

    def select(self, timeout: float | None) -> Sequence[object]:
        """Let `timeout` seconds pass."""
        if timeout is None:
            raise Stalled("nothing is scheduled any more")
        if timeout > 0:
            self.now += timeout
            self._spins = 0
        else:
            self._spins += 1
            if self._spins > SPINS_MAX:
                self._spins = 0
                raise Spinning(f"{SPINS_MAX} turns at {self.now:.6f} s")
        return ()

    def close(self) -> None:
        """There is nothing to close."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation. Its time starts at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Idle()

    def time(self) -> float:
        """Return the seconds that have passed in the simulation."""
        return self._selector.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Refuse: a thread has no place in virtual time."""
        del executor, args
        raise RuntimeError(f"a simulation has no threads: {func!r}")

    def _process_events(self, event_list: Sequence[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who could be woken."""
