"""A run in a replica's memory: its state, its queued signals, and how it follows the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from stepwell.core.loop.signals import Delivery, Signal
from stepwell.core.loop.state import RunState
from stepwell.core.port import Commit, Reservation, Runtime, Store
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
        "held_back",
        "inbox",
        "kept_until",
        "overtaken",
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
        self.overtaken = False
        """Entries of a journal were written while the turn under way was decided. Further ones wait for its end: else
        a step that makes call after call could never be ended."""
        self.held_back: list[Callable[[], None]] = []
        """The writer of those entries."""
        self.kept_until: dict[str, float] = {}
        """The places that claims gave to its executions: the monotonic time until which the steps that follow them may
        keep each, although steps of other runs have waited for longer."""
        self.reached = 0
        """The newest version that a hint has named; the store has it before this replica reads it."""
        self.reserved: dict[str, Reservation] = {}
        """The reservations of idempotency keys that this replica made for it, as far as they may stand."""
        self.shared_until = 0.0
        """The monotonic time until which other replicas are assumed to work on the run, too."""
        self.turn_s = 0.005
        """The average duration of a turn while the run is shared."""

    def keep(self, execution_id: str, now: float, seconds: float) -> None:
        """Note that a claim gives an execution a place, which the steps that follow it may keep for so long."""
        self.kept_until = {one: until for one, until in self.kept_until.items() if until > now}
        self.kept_until[execution_id] = now + seconds

    def kept(self, signals: Sequence[Signal], now: float) -> int:
        """Return the number of places that these signals leave to the run's next steps."""
        if not self.kept_until:
            return 0
        ending = (one.execution_id for one in signals if isinstance(one, Delivery))
        return sum(self.kept_until.get(one, now) > now for one in ending)

    def inherit(self, commit: Commit) -> None:
        """Give the places of the executions that a commit ends to those that it leases."""
        if not self.kept_until:
            return
        ended = [one.execution_id for one in commit.executions if one.ended_us]
        left = [self.kept_until.pop(one) for one in ended if one in self.kept_until]
        for lease, until in zip(commit.leases, left, strict=False):
            self.kept_until.setdefault(lease.execution_id, until)

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

    def let_go_on(self) -> None:
        """Write the entries that waited for the turn's end."""
        self.overtaken = False
        held_back, self.held_back = self.held_back, []
        for write in held_back:
            write()

    async def refresh(self, store: Store, key: RunKey, runtime: Runtime) -> bool:
        """Bring the run up to date; return whether another replica had changed it."""
        before = self.state.commit_id if self.state is not None else ""
        await self.catch_up(store, key, runtime, Verdict.CONFLICT)
        return self.state is None or self.state.commit_id != before
