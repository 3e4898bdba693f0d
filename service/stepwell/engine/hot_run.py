"""A run in a replica's memory: its state, its queued occurrences, and how it is kept up to date."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from stepwell.core.loop.occurrences import Delivery, Occurrence
from stepwell.core.loop.state import RunState
from stepwell.core.port import Commit, Reservation, Runtime, Store
from stepwell.core.records.errors import AlreadyExists, RunNotFound
from stepwell.core.records.states import Verdict
from stepwell.engine.batches import Posted
from stepwell.engine.key_types import RunKey

SHARED_SECONDS = 1.0
"""The time after another replica's commit for which that replica is assumed to work on the run."""


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
        """True if journal entries were written while the current turn was decided. Further ones
        wait for its end, or else a step that makes calls continuously could never be ended."""
        self.held_back: list[Callable[[], None]] = []
        """The functions that write those entries."""
        self.kept_until: dict[str, float] = {}
        """The places that claims gave to its executions, with the monotonic time until which
        following steps may keep each, even if steps of other runs have waited for longer."""
        self.reached = 0
        """The newest version that a hint has named, which this replica may not have read yet."""
        self.reserved: dict[str, Reservation] = {}
        """The reservations of idempotency keys that this replica made for the run, as far as they may still be stored."""
        self.shared_until = 0.0
        """The monotonic time until which other replicas are assumed to work on the run, too."""
        self.turn_s = 0.005
        """The average duration of a turn while the run is shared."""

    def keep(self, execution_id: str, now: float, seconds: float) -> None:
        """Note that a claim gives an execution a place, which following steps may keep for this long."""
        self.kept_until = {one: until for one, until in self.kept_until.items() if until > now}
        self.kept_until[execution_id] = now + seconds

    def kept(self, occurrences: Sequence[Occurrence], now: float) -> int:
        """Return the number of places that these occurrences leave to the run's next steps."""
        if not self.kept_until:
            return 0
        ending = (one.execution_id for one in occurrences if isinstance(one, Delivery))
        return sum(self.kept_until.get(one, now) > now for one in ending)

    def inherit(self, commit: Commit) -> None:
        """Pass the places of the executions that a commit ends on to those that it leases."""
        if not self.kept_until:
            return
        ended = [one.execution_id for one in commit.executions if one.ended_us]
        left = [self.kept_until.pop(one) for one in ended if one in self.kept_until]
        for lease, until in zip(commit.leases, left, strict=False):
            self.kept_until.setdefault(lease.execution_id, until)

    async def catch_up(self, store: Store, key: RunKey, runtime: Runtime, verdict: Verdict) -> None:
        """Read what another replica has changed.

        Memory may be ahead of the store: depending on its durability class, a store may lose what
        it acknowledged and continue without it. Then the whole run is read.
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
