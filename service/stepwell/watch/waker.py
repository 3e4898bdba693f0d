"""Wakes watchers, few at a time.

A woken watcher writes a message, which costs the server tens of microseconds and its reader as
many. A thousand woken watchers at each of a hundred events a second would leave no time for the
events themselves. Watchers whose turn comes later miss nothing, because later events go into the
same message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice

from stepwell.core.port import Runtime

TURN = 16
"""The number of watchers that are woken at once."""
PAUSE_S = 0.002
"""The time between two turns."""


class Waker:
    """Sets events: up to `TURN` of them at once, the others in later turns, each once however often it is due."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        # A dictionary instead of a set, because it keeps the order, so that every watcher gets its
        # turn.
        self._due: dict[asyncio.Event, None] = {}

    def wake(self, events: Iterable[asyncio.Event]) -> None:
        """Set these events, after those that are already due."""
        if self._due:
            self._due.update(dict.fromkeys(events))
            return
        rest = iter(events)
        for event in islice(rest, TURN):
            event.set()
        self._due = dict.fromkeys(rest)
        if self._due:
            self._runtime.spawn(self._take_turns(), name="waker")

    async def _take_turns(self) -> None:
        while self._due:
            await self._runtime.sleep(PAUSE_S)
            for event in list(islice(self._due, TURN)):
                del self._due[event]
                event.set()
