"""A run in a replica's memory: its state, its queued signals, and how it follows the store."""

from __future__ import annotations

from collections import deque

from stepwell.core.loop.state import RunState
from stepwell.core.port import Reservation, Runtime, Store
from stepwell.core.records.errors import AlreadyExists, RunNotFound
from stepwell.core.records.states import Verdict
from stepwell.engine.batches import Posted
from stepwell.engine.names import RunKey

SHARED_SECONDS = 1.0
"""After another replica's commit, a run is assumed to be worked on there for this long."""


class HotRun:
    """A run in this replica's memory."""

    __slots__ = (
        "busy",
        "committing",
        "inbox",
        "reached",
        "reserved",
        "shared_until",
        "state",
        "turn_s",
    )

    def __init__(self) -> None:
        self.state: RunState | None = None
        self.inbox: deque[Posted] = deque()
        self.busy = False
        self.committing = False
        self.reached = 0
        """The newest version that a hint has named; the store has it before this replica reads it."""
        self.reserved: dict[str, Reservation] = {}
        """The reservations of idempotency keys that this replica made for it, as far as they may stand."""
        self.shared_until = 0.0
        """The monotonic time until which other replicas are assumed to work on the run, too."""
        self.turn_s = 0.005
        """The average duration of a turn while the run is shared."""

    async def catch_up(self, store: Store, key: RunKey, runtime: Runtime, verdict: Verdict) -> None:
        """Read what another replica has changed since.

        Memory may be ahead of the store: a store may lose what it acknowledged, if its durability class
        says so, and go on without it. Then the whole run is read.
        """
        state = self.state
        assert state is not None
        since = state.run.version if verdict is Verdict.CONFLICT else 0
        loaded = await store.load(*key, since=since)
        if loaded is not None and not loaded.complete and loaded.since_id != state.commit_id:
            loaded = await store.load(*key)
        if loaded is None:
            self.state = None
            if since == 0:
                raise AlreadyExists("a run of this id was deleted a short while ago")
            raise RunNotFound(key[1])
        if loaded.run.version != state.run.version:
            self.shared_until = runtime.monotonic() + SHARED_SECONDS
        state.merge(loaded)

    async def refresh(self, store: Store, key: RunKey, runtime: Runtime) -> bool:
        """Bring the run up to date; return whether another replica had changed it."""
        before = self.state.commit_id if self.state is not None else ""
        await self.catch_up(store, key, runtime, Verdict.CONFLICT)
        return self.state is None or self.state.commit_id != before
