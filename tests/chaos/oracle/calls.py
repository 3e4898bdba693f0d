"""The calls of a store's clients: each with when it was made, when it was answered, and the answer.

Written down by those who call, in one process and with its one monotonic clock. Whose commit an event
is, the event says itself: its message is the commit's id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from stepwell.core.port import Commit
from stepwell.core.records.events import Event
from stepwell.core.records.states import ExecutionStatus, Verdict

Open = Mapping[str, tuple[ExecutionStatus, str]]
"""The open executions of a run: their status and, of those that are leased, the token."""


class Span(NamedTuple):
    """When a call was made and when it was answered."""

    invoked: float
    answered: float


class Sending(NamedTuple):
    """A commit sent once."""

    span: Span
    verdict: Verdict | None
    """None: there was an error instead."""
    certain: bool = True
    """With an error: nothing was done by this sending."""


class Tried(NamedTuple):
    """A commit, and what became of each time that it was sent."""

    commit: Commit
    sendings: list[Sending]

    @property
    def invoked(self) -> float:
        """When it was sent first."""
        return self.sendings[0].span.invoked

    @property
    def acknowledged(self) -> float:
        """When it was first known to be committed; never: infinity."""
        done = (one.span.answered for one in self.sendings if one.verdict is Verdict.COMMITTED)
        return min(done, default=float("inf"))

    @property
    def possible(self) -> bool:
        """Return true if it may be in the store: it was acknowledged, or once nobody knew."""
        return any(one.verdict is Verdict.COMMITTED or not one.certain for one in self.sendings)


class Seen(NamedTuple):
    """A version of a run that a read returned; 0: the run wasn't there."""

    run_id: str
    version: int
    span: Span
    how: str


class Loading(NamedTuple):
    """The result of a load."""

    run_id: str
    version: int
    open: Open


class Paging(NamedTuple):
    """The result of a read of events after a number."""

    run_id: str
    after: int
    events: tuple[Event, ...]


class Beat(NamedTuple):
    """A renewal that was answered."""

    run_id: str
    execution_id: str
    token: str
    span: Span
    alive: bool


class Claiming(NamedTuple):
    """A READY execution that a claim returned."""

    run_id: str
    execution_id: str
    span: Span


class History:
    """All that the clients of one store saw."""

    def __init__(self) -> None:
        self.tried: dict[str, Tried] = {}
        """By commit id."""
        self.seen: list[Seen] = []
        self.loads: list[Loading] = []
        self.pages: list[Paging] = []
        self.beats: list[Beat] = []
        self.claims: list[Claiming] = []
        self.fed: list[list[tuple[str, int]]] = []
        """For each reader of the feed all that it got, over all its pages."""
        self.counts: Counter[str] = Counter()
        """Operations by kind, and what they met."""

    @property
    def operations(self) -> int:
        """Return the number of calls; each commit of a call is one."""
        return sum(many for what, many in self.counts.items() if what.startswith("op "))

    @property
    def runs(self) -> set[str]:
        """Every run that was written or read, existing or not."""
        written = {tried.commit.run_id for tried in self.tried.values()}
        return written | {one.run_id for one in self.seen}

    def sent(self, commit: Commit, sending: Sending) -> None:
        """Write down a commit's sending."""
        tried = self.tried.setdefault(commit.commit_id, Tried(commit, []))
        tried.sendings.append(sending)


class Kept(NamedTuple):
    """The contents of the store for one run when all is over."""

    version: int
    events: tuple[Event, ...]
    open: Open
    results: Mapping[str, bytes]
    """By execution."""
