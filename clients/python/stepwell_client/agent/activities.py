"""Activities of a step: its running calls, short sleeps and reads, and which activity began each."""

from __future__ import annotations

import asyncio


class Activity:
    """Running work of a step on the event loop."""

    __slots__ = ("children", "parent", "task")

    def __init__(self, parent: Activity | None) -> None:
        self.parent = parent
        """The activity whose function began this one."""
        self.children = 0
        """The number of running activities that its function began."""
        self.task = asyncio.current_task()
        """The task in which it runs."""


class Activities:
    """The activities of one step, except its waits."""

    def __init__(self) -> None:
        self.moves = 0
        """Counts beginnings and ends, so that a standstill can be noticed."""
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
        """True if some activity does more than wait for activities that it began."""
        return any(not one.children for one in self._open)

    async def idle(self, seconds: float) -> bool:
        """Wait until no activity runs; return False if one still does after this time."""
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
        """Cancel the tasks of all activities, except the calling task."""
        current = asyncio.current_task()
        for activity in self._open:
            if activity.task is not None and activity.task is not current:
                activity.task.cancel()
