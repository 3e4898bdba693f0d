"""Rings: the newest events of the runs that are watched here, encoded once for all their watchers.

A ring follows one run by the commits that this replica makes. It holds consecutive events of whole commits,
each made on the one before. Where that chain breaks (another replica's commit, a conflict, an unknown outcome,
a deletion), the ring becomes empty and begins again with this replica's next commit. So what it holds is what
the store holds, and whoever needs events that it lacks reads the store.

A ring exists as long as its run has a follower: runs that nobody watches cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stepwell.core.port import Commit, Runtime
from stepwell.core.records.events import Event
from stepwell.core.records.model import Run
from stepwell.core.records.states import EventType
from stepwell.watch.waker import Waker

RING_BYTES_MAX = 1024 * 1024
"""The most that the ring of one run holds."""
RINGS_BYTES_MAX = 64 * 1024 * 1024
"""The most that all rings hold together."""

Encode = Callable[[Event], bytes]
"""Returns an event as it is sent."""
Committing = Callable[[str, str], int]
"""Returns the version of a run (tenant, run) whose commit is under way here; 0: none is."""

_RunKey = tuple[str, str]
"""(tenant_id, run_id)."""


class EncodedEvent(NamedTuple):
    """An event as it is sent, with what filters and cursors look at."""

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
    """One that watches a run, or waits for its end."""

    key: _RunKey
    ring: Ring
    changed: asyncio.Event
    """Set when there is something for this follower: events for a reader, otherwise the run's end."""
    reads: bool
    """It reads events; otherwise it only waits for the run's end."""


class Ring:
    """The newest events of one run, and the run as its last commit here left it."""

    __slots__ = (
        *("_commit_id", "_events", "_readers", "_waiters", "_waker"),
        *("bytes", "last", "news", "run"),
    )

    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self.run: Run | None = None
        """The run as of its last commit here; None: the store may have a later one."""
        self.last = 0
        """The number of the last event of that commit, or of those before it; 0: not known."""
        self.news = 0
        """Grows whenever the store may have what this ring lacks."""
        self.bytes = 0
        self._commit_id = ""
        self._events: list[EncodedEvent] = []
        """Consecutive ones up to `last`."""
        # Dictionaries rather than sets: they keep the order, so that a simulation repeats exactly.
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
        """Return the events above this number; None: the first of them are not held here."""
        if number >= self.last:
            return ()
        start = number - self.last + len(self._events)
        return self._events[start:] if start >= 0 else None

    def add(self, follower: Follower) -> None:
        """Take a follower in."""
        (self._readers if follower.reads else self._waiters)[follower.changed] = None

    def remove(self, follower: Follower) -> None:
        """Let a follower go; without one who reads events, none are held."""
        (self._readers if follower.reads else self._waiters).pop(follower.changed, None)
        if not self._readers:
            self.drop_events()

    def drop_events(self) -> None:
        """Hold no events; followers that have seen all of them miss nothing."""
        self._events = []
        self.bytes = 0

    def clear(self) -> None:
        """Forget all: the chain of commits is broken."""
        self.drop_events()
        self.run, self.last, self._commit_id = None, 0, ""

    def append(self, commit: Commit, encode: Encode) -> None:
        """Take in a commit that this replica has made; wake those whom it concerns."""
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
        """Wake the readers, as the store may have what this ring lacks; those who wait for the end look at `news`."""
        self.news += 1
        self._waker.wake(self._readers)

    def notify_all(self) -> None:
        """Wake all followers."""
        self.notify()
        self._waker.wake(self._waiters)

    def _cut(self) -> None:
        """Drop the oldest commits that are too much."""
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
    """The rings of all runs that are followed here. The executor tells it what it commits."""

    def __init__(self, encode: Encode, committing: Committing, runtime: Runtime) -> None:
        self.encode = encode
        self._committing = committing
        self._waker = Waker(runtime)
        self._rings: OrderedDict[_RunKey, Ring] = OrderedDict()
        """The one whose run was committed to longest ago comes first."""
        self.bytes = 0
        """The bytes of all events that are held."""

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
        """Follow a run no longer."""
        ring = follower.ring
        self.bytes -= ring.bytes
        ring.remove(follower)
        self.bytes += ring.bytes
        if not ring.followers:
            self._rings.pop(follower.key, None)

    # --- what the executor tells ------------------------------------------------------------------

    def committed(self, commit: Commit) -> None:
        """Take in a commit that the store has acknowledged to this replica."""
        key = (commit.tenant_id, commit.run_id)
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
        """Empty a run's ring: its commit was refused or its outcome is unknown, or the run was deleted."""
        ring = self._rings.get((tenant_id, run_id))
        if ring is not None:
            self.bytes -= ring.bytes
            ring.clear()
            ring.notify()

    # --- what the store hints at --------------------------------------------------------------------

    def hint(self, tenant_id: str, run_id: str, version: int) -> None:
        """Wake a run's followers, unless the hint is about a commit that this replica made or is making."""
        ring = self._rings.get((tenant_id, run_id))
        if ring is None:
            return
        if version and (version <= ring.version or version == self._committing(tenant_id, run_id)):
            return
        ring.notify()

    def notify_all(self) -> None:
        """Wake the followers of all runs: any of them may have changed."""
        for ring in self._rings.values():
            ring.notify_all()
