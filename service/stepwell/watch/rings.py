"""Rings: the newest events of the runs that are watched here, encoded once for all their watchers.

A ring follows one run by this replica's commits. It holds consecutive events of whole commits. If
that chain breaks (another replica's commit, a conflict, an unknown outcome, a deletion), the ring
is emptied and begins again with this replica's next commit. A ring thus holds only events that the
store has, and a watcher reads missing ones from the store. A ring exists as long as its run has a
follower, so runs without watchers cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stepwell.core.port import Commit, Runtime
from stepwell.core.records.events import Event
from stepwell.core.records.model import Run
from stepwell.core.records.states import EventType
from stepwell.watch.waker import Waker

RING_BYTES_MAX = 1024 * 1024
"""The most bytes in the ring of one run."""
RINGS_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes in all rings together."""

Encode = Callable[[Event], bytes]
"""Returns an event in its sent form."""
Committing = Callable[[str, str], int]
"""Returns the version of a run (tenant, run) that is being committed here, or 0."""

_RunKey = tuple[str, str]
"""(tenant_id, run_id)."""


class EncodedEvent(NamedTuple):
    """An event in its sent form, with the fields for filters and cursors."""

    number: int
    version: int
    type: EventType
    task_id: str
    data: bytes


def encoded(events: Iterable[Event], encode: Encode) -> list[EncodedEvent]:
    """Return these events, encoded."""
    return [
        EncodedEvent(one.number, one.version, one.type, one.task_id, encode(one)) for one in events
    ]


class Follower(NamedTuple):
    """A watcher of a run, or a caller that waits for its end."""

    key: _RunKey
    ring: Ring
    changed: asyncio.Event
    """Set when there is something for this follower: events for a reader, otherwise the run's end."""
    reads: bool
    """True if it reads events; otherwise it only waits for the run's end."""


class Ring:
    """The newest events of one run, and the run after its last commit here."""

    __slots__ = (
        *("_commit_id", "_events", "_readers", "_waiters", "_waker"),
        *("bytes", "last", "news", "run"),
    )

    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self.run: Run | None = None
        """The run after its last commit here; None: the store may have a later one."""
        self.last = 0
        """The number of the last event up to that commit; 0: unknown."""
        self.news = 0
        """Grows whenever the store may have events that this ring lacks."""
        self.bytes = 0
        self._commit_id = ""
        self._events: list[EncodedEvent] = []
        """Consecutive events up to `last`."""
        # Dictionaries instead of sets, because they keep the order and so a simulation repeats
        # exactly.
        self._readers: dict[asyncio.Event, None] = {}
        self._waiters: dict[asyncio.Event, None] = {}

    @property
    def followers(self) -> int:
        """The number of followers."""
        return len(self._readers) + len(self._waiters)

    @property
    def version(self) -> int:
        """The version that the last commit here made; 0: the store may have a later one."""
        return self.run.version if self.run is not None else 0

    def after(self, number: int) -> Sequence[EncodedEvent] | None:
        """Return the events above this number, or None if the first of them are not in the ring."""
        if number >= self.last:
            return ()
        start = number - self.last + len(self._events)
        return self._events[start:] if start >= 0 else None

    def add(self, follower: Follower) -> None:
        """Add a follower."""
        (self._readers if follower.reads else self._waiters)[follower.changed] = None

    def remove(self, follower: Follower) -> None:
        """Remove a follower; without readers, the ring holds no events."""
        (self._readers if follower.reads else self._waiters).pop(follower.changed, None)
        if not self._readers:
            self.drop_events()

    def drop_events(self) -> None:
        """Drop all events; followers that have seen all of them miss nothing."""
        self._events = []
        self.bytes = 0

    def clear(self) -> None:
        """Forget everything, because the chain of commits is broken."""
        self.drop_events()
        self.run, self.last, self._commit_id = None, 0, ""

    def append(self, commit: Commit, encode: Encode) -> None:
        """Add a commit of this replica, and wake the affected followers."""
        follows = bool(self._commit_id) and commit.follows == self._commit_id
        if not follows:
            self.clear()
        self.run, self.last, self._commit_id = commit.run, commit.run.last_event, commit.commit_id
        if commit.events and self._readers:
            new = encoded(commit.events, encode)
            self._events += new
            self.bytes += sum([len(one.data) for one in new])
            self._cut()
        if commit.events or not follows:
            self._waker.wake(self._readers)
        if commit.run.ended:
            self._waker.wake(self._waiters)

    def notify(self) -> None:
        """Wake the readers, because the store may have events that this ring lacks; callers that
        wait for the end check `news`.
        """
        self.news += 1
        self._waker.wake(self._readers)

    def notify_all(self) -> None:
        """Wake all followers."""
        self.notify()
        self._waker.wake(self._waiters)

    def _cut(self) -> None:
        """Drop the oldest commits that exceed the limit."""
        if self.bytes <= RING_BYTES_MAX:
            return
        events, count = self._events, 0
        while count < len(events) and (
            self.bytes > RING_BYTES_MAX or events[count].version == events[count - 1].version
        ):
            self.bytes -= len(events[count].data)
            count += 1
        del events[:count]


class Rings:
    """The rings of all runs that are followed here. The executor reports its commits to it."""

    def __init__(self, encode: Encode, committing: Committing, runtime: Runtime) -> None:
        self.encode = encode
        self._committing = committing
        self._waker = Waker(runtime)
        self._rings: OrderedDict[_RunKey, Ring] = OrderedDict()
        """Ordered by the time of the runs' last commits, the oldest first."""
        self.bytes = 0
        """The bytes of all held events."""
        self.commits: Counter[str] = Counter()
        """This replica's commits since its start, by tenant."""
        self.ends: Counter[str] = Counter()
        """The commits of this replica that ended a run, by tenant."""

    @property
    def followers(self) -> int:
        """The number of followers of all runs."""
        return sum(ring.followers for ring in self._rings.values())

    def follow(self, tenant_id: str, run_id: str, *, reads: bool) -> Follower:
        """Follow a run, with its events or only to its end, until `leave`."""
        key = (tenant_id, run_id)
        ring = self._rings.setdefault(key, Ring(self._waker))
        follower = Follower(key, ring, asyncio.Event(), reads)
        ring.add(follower)
        return follower

    def leave(self, follower: Follower) -> None:
        """Stop following a run."""
        ring = follower.ring
        self.bytes -= ring.bytes
        ring.remove(follower)
        self.bytes += ring.bytes
        if not ring.followers:
            self._rings.pop(follower.key, None)

    # --- reports of the executor ------------------------------------------------------------------

    def committed(self, commit: Commit) -> None:
        """Add a commit that the store has acknowledged to this replica."""
        key = (commit.tenant_id, commit.run_id)
        self.commits[commit.tenant_id] += 1
        self.ends[commit.tenant_id] += commit.run.ended
        ring = self._rings.get(key)
        if ring is None:
            return
        self.bytes -= ring.bytes
        ring.append(commit, self.encode)
        self.bytes += ring.bytes
        self._rings.move_to_end(key)
        for oldest in self._rings.values():
            if self.bytes <= RINGS_BYTES_MAX:
                break
            self.bytes -= oldest.bytes
            oldest.drop_events()

    def uncertain(self, tenant_id: str, run_id: str) -> None:
        """Empty a run's ring: its commit was refused or has an unknown outcome, or the run was deleted."""
        ring = self._rings.get((tenant_id, run_id))
        if ring is not None:
            self.bytes -= ring.bytes
            ring.clear()
            ring.notify()

    # --- hints of the store --------------------------------------------------------------------

    def hint(self, tenant_id: str, run_id: str, version: int) -> None:
        """Wake a run's followers, unless the hint is about a commit that this replica made or is making."""
        ring = self._rings.get((tenant_id, run_id))
        if ring is None:
            return
        if version and (version <= ring.version or version == self._committing(tenant_id, run_id)):
            return
        ring.notify()

    def notify_all(self) -> None:
        """Wake the followers of all runs, any of which may have changed."""
        for ring in self._rings.values():
            ring.notify_all()
