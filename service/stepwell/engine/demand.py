"""Demand for claims: whether READY steps may be waiting in the store, and since when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from stepwell.core.port import Runtime
from stepwell.engine.key_types import QueueKey


class Demand:
    """Wakes the claim loop, and limits how long eager leases may overtake steps in the store.

    Runs and workers report to it, and the claim loop waits on it.
    """

    def __init__(self, runtime: Runtime, *, stickiness_ms: int) -> None:
        self._runtime = runtime
        self._stickiness_ms = stickiness_ms
        self._wake = asyncio.Event()
        self._waiting_since: dict[QueueKey, float] = {}
        self._due_at = math.inf
        """The moment, by the event loop's clock, at which something is due that no claim has seen."""
        self._shortest_ms = math.inf
        """The shortest delay since the last claim; a later, longer delay is not due before it."""
        self._waiting: asyncio.Timeout | None = None
        self._only_if_free = True
        """True if nothing but `worker_is_free` has woken the claim loop since the last claim."""
        self.more_ready = True
        """True if READY steps may be waiting in the store."""

    def wake(self) -> None:
        """Claim at once, because steps may have become ready."""
        self.more_ready = True
        self.wake_idle()

    def worker_is_free(self) -> None:
        """Claim at once if READY steps may be waiting and a worker is still free for one."""
        if self.more_ready:
            self._wake.set()

    def wake_idle(self) -> None:
        """End the claim loop's wait, whether or not there is anything to claim."""
        self._only_if_free = False
        self._wake.set()

    def due_in(self, delay_ms: int) -> None:
        """Claim in `delay_ms` at the latest, when something that was committed is due."""
        if delay_ms >= self._shortest_ms:
            return
        self._shortest_ms = delay_ms
        at = asyncio.get_running_loop().time() + delay_ms / 1_000
        if at < self._due_at:
            self._due_at = at
            waiting = self._waiting
            # A wait that ends at this moment can't be changed; the claim after it sees what is due.
            if waiting is not None and not waiting.expired() and at < (waiting.when() or 0):
                waiting.reschedule(at)

    def step_waits(self, queue: QueueKey) -> None:
        """Note that a step of this queue became ready while no worker was free for it."""
        self.more_ready = True
        self._waiting_since.setdefault(queue, self._runtime.monotonic())

    def claimed(self, queue: QueueKey, *, full: bool) -> None:
        """Note a claim; `full`: it returned as many steps as it asked for, so there may be more."""
        if full:
            self._waiting_since.setdefault(queue, self._runtime.monotonic())
        else:
            self._waiting_since.pop(queue, None)

    def overtaken_too_long(self, queue: QueueKey) -> bool:
        """Return whether steps of this queue have waited too long while eager leases overtook them."""
        since = self._waiting_since.get(queue)
        if since is None:
            return False
        return (self._runtime.monotonic() - since) * 1_000 >= self._stickiness_ms

    def clear(self) -> None:
        """Forget past wakes and due times, because a claim begins that sees all of them."""
        self._wake.clear()
        self._only_if_free = True
        self._due_at = self._shortest_ms = math.inf

    async def wait(self, within_ms: float, any_free: Callable[[], bool]) -> bool:
        """Wait for a wake, or for a due time, at most this long; return whether it was a wake.

        A free worker is no reason any more once a commit has leased a step to it: then `any_free`
        returns False, and the wait goes on.
        """
        at = asyncio.get_running_loop().time() + within_ms / 1_000
        try:
            async with asyncio.timeout_at(min(at, self._due_at)) as self._waiting:
                await self._wake.wait()
                while self._only_if_free and not any_free():
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting = None
        return True
