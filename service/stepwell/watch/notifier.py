"""Wakes watchers: one subscription to the store's change hints, shared by all watchers of a process.

Followers of a run have its ring (`rings.py`), which also knows the commits of this replica; each
reader of logs or of the feed has an event. A notification is only a hint that wakes a watcher
earlier than its next poll would, so a lost one costs time and no event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepwell.core.port import Runtime, Store
from stepwell.watch.rings import Rings

POLL_MS = 1_000
"""The time after which a watcher without a hint reads the store again."""

_RunKey = tuple[str, str]
"""(tenant_id, run_id)."""


class _Subscribers:
    """Events to set, by run; those of one run are set in the order of their subscriptions."""

    def __init__(self) -> None:
        # Dictionaries instead of sets, because they keep the order and so a simulation repeats
        # exactly.
        self._by_run: dict[_RunKey, dict[asyncio.Event, None]] = {}

    def add(self, key: _RunKey) -> asyncio.Event:
        event = asyncio.Event()
        self._by_run.setdefault(key, {})[event] = None
        return event

    def remove(self, key: _RunKey, event: asyncio.Event) -> None:
        waiting = self._by_run.get(key, {})
        waiting.pop(event, None)
        if not waiting:
            self._by_run.pop(key, None)

    def notify(self, key: _RunKey) -> None:
        for event in self._by_run.get(key, ()):
            event.set()

    def notify_all(self) -> None:
        for key in self._by_run:
            self.notify(key)

    def __len__(self) -> int:
        return sum(map(len, self._by_run.values()))


class Notifier:
    """Wakes watchers when their run may have changed."""

    def __init__(self, store: Store, rings: Rings) -> None:
        self.rings = rings
        self._changes = _Subscribers()
        self._closing = asyncio.Event()
        self._unsubscribe: Callable[[], None] = store.subscribe(self._hint)

    @property
    def closing(self) -> bool:
        """True once the process closes, so that watchers end."""
        return self._closing.is_set()

    @property
    def subscribers(self) -> int:
        """The number of active subscriptions."""
        return len(self._changes) + self.rings.followers

    def close(self) -> None:
        """Wake every watcher for the last time."""
        self._closing.set()
        self._unsubscribe()
        self._notify_all()

    def _notify_all(self) -> None:
        self._changes.notify_all()
        self.rings.notify_all()

    def _hint(self, tenant_id: str, run_id: str, version: int) -> None:
        if not run_id:
            # The store doesn't know what changed, so it may have been any run.
            self._notify_all()
            return
        self.rings.hint(tenant_id, run_id, version)
        self._changes.notify((tenant_id, run_id))
        self._changes.notify(("", ""))

    def subscribe(self, tenant_id: str, run_id: str) -> asyncio.Event:
        """Return an event that is set at each hint about this run, or with "" and "" about any run."""
        return self._changes.add((tenant_id, run_id))

    def unsubscribe(self, tenant_id: str, run_id: str, event: asyncio.Event) -> None:
        """End a subscription to a run's hints."""
        self._changes.remove((tenant_id, run_id), event)

    async def wait(self, event: asyncio.Event, timeout_ms: float) -> bool:
        """Wait for a watcher's event, but no longer than this; return whether it was set."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True


class Pace:
    """Decides how long a watcher waits until its next read, and when a progress message is due."""

    def __init__(self, runtime: Runtime, progress_ms: int) -> None:
        self._runtime = runtime
        self._progress_ms = progress_ms
        self._sent_at = runtime.monotonic()

    def sent(self) -> None:
        """Note that a message was sent."""
        self._sent_at = self._runtime.monotonic()

    def silent_ms(self) -> float:
        """Return how long ago the last message was sent."""
        return (self._runtime.monotonic() - self._sent_at) * 1_000

    def is_due(self) -> bool:
        """Return whether a progress message is due."""
        return self.silent_ms() >= self._progress_ms

    def wait_ms(self) -> float:
        """Return the longest wait for a hint."""
        return max(1.0, min(POLL_MS, self._progress_ms - self.silent_ms()))
