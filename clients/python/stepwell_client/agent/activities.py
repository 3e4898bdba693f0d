"""Activities of a step: calls, short rests and reads that are under way, and their parents."""

from __future__ import annotations

import asyncio


class Activity:
    """Something of a step that is under way on its event loop."""

    __slots__ = ("children", "parent", "task")

    def __init__(self, parent: Activity | None) -> None:
        self.parent = parent
        """The call whose function began it."""
        self.children = 0
        """The number of activities that its function has begun, and that aren't over."""
        self.task = asyncio.current_task()
        """The task that it runs in."""


class Activities:
    """All that is under way in one step, besides its waits."""

    def __init__(self) -> None:
        self.moves = 0
        """Counts what began or ended, so that a standstill can be noticed."""
        self._open: set[Activity] = set()
        self._idle: asyncio.Future[None] | None = None

    def begin(self, activity: Activity) -> None:
        self.moves += 1
        self._open.add(activity)
        if activity.parent is not None:
            activity.parent.children += 1

    def end(self, activity: Activity) -> None:
        self.moves += 1
        self._open.discard(activity)
        if activity.parent is not None:
            activity.parent.children -= 1
        if not self._open and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    @property
    def work(self) -> bool:
        """Something is under way that doesn't only wait for what it has begun."""
        return any(not one.children for one in self._open)

    async def idle(self, seconds: float) -> bool:
        """Wait until nothing is under way; False: something is after this time."""
        if not self._open:
            return True
        self._idle = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._idle
        except TimeoutError:
            return False
        return True

    def cancel(self) -> None:
        """Cancel the tasks in which something is under way, except the one that asks for it."""
        current = asyncio.current_task()
        for activity in self._open:
            if activity.task is not None and activity.task is not current:
                activity.task.cancel()
