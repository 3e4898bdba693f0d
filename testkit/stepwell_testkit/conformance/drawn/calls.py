"""A program: calls as data that says nothing of any store.

What a call means is settled when it is played, from what the program has done until then, so that a
program stays legal with any of its calls left out. That is what makes it shrink well, and what makes a
text of it (`Program.text`) all that a replay needs.
"""

from __future__ import annotations

import base64
import zlib
from enum import StrEnum

import msgspec

from stepwell.core.port import NOBODY, JournalWrite, Reservation, Timer
from stepwell.core.records.model import Message, Question
from stepwell.core.records.states import ExecutionStatus, RunStatus, TaskStatus
from stepwell_testkit.conformance.drawn.names import EXECUTIONS, KEYS, QUEUES, RUNS, WORKERS, Named


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of what a call is made of."""


class Base(StrEnum):
    """The version that a commit builds on."""

    NEXT = "next"
    """On what the run is; it is created where it isn't there."""
    AGAIN = "again"
    """A commit sent before is sent again, as it was."""
    STALE = "stale"
    """`back` versions too low: at 0, a rival of the run's last commit."""
    AHEAD = "ahead"
    """A version too high."""
    CREATE = "create"
    """Version 1, whatever is there."""


class Row(Part, frozen=True, kw_only=True):
    """An execution that changes, and what comes with that."""

    named: Named = EXECUTIONS[0]
    status: ExecutionStatus = ExecutionStatus.READY
    queue: str = QUEUES[0]
    type: str = ""
    role: str = ""
    pin: str = ""
    priority: int = 0
    delay_ms: int = 0
    worker_id: str = WORKERS[0]
    lease_ms: int = 0
    """0: a LEASED one gets no lease with this commit."""
    limit_ms: int = 0
    result: int = 0
    """0: no outcome comes with it."""


class Check(Part, frozen=True, kw_only=True):
    """A fence, or the lease that a heartbeat is for: one of those given, or none of them."""

    lease: int = 0
    """Counted from the last one given."""
    right: bool = True
    recorded: int | None = None
    """A fence states so many entries more than were recorded under the lease. None: it states no number."""


class Swap(Part, frozen=True, kw_only=True):
    """A swap of an idempotency key's reservation; as it stands here, it only looks."""

    key: str = KEYS[0]
    right: bool = False
    """It is made for what stands, whatever `before` says."""
    before: Reservation = NOBODY
    after: Reservation = NOBODY


class Change(Part, frozen=True, kw_only=True):
    """One commit."""

    tenant: int = 0
    run: str = RUNS[0]
    base: Base = Base.NEXT
    back: int = 0
    status: RunStatus = RunStatus.QUEUED
    text: int = 0
    kind: int = 0
    """At its birth: what the run is listed by."""
    parent: str = ""
    """At its birth: the run that it is forked from."""
    plan: int = 0
    """A new revision with so many tasks; 0: none."""
    tasks: tuple[tuple[int, TaskStatus], ...] = ()
    executions: tuple[Row, ...] = ()
    fences: tuple[Check, ...] = ()
    timers: tuple[Timer, ...] = ()
    questions: tuple[Question, ...] = ()
    messages: tuple[Message, ...] = ()
    entries: tuple[JournalWrite, ...] = ()
    forgotten: tuple[JournalWrite, ...] = ()
    events: int = 1
    checkpoint: int = 0
    """0: it has none. 1: one without a base. Above: one with a base."""
    request: bool = False
    payload: int = 0


class Call(Part, frozen=True, kw_only=True):
    """A call of one of the player's methods."""

    method: str
    via: int = 0
    """The number of the connection to the store that it goes through, of two."""
    arguments: dict[str, object] = {}


class Program(Part, frozen=True, kw_only=True):
    """Calls in their order."""

    number: int = 0
    """Its tenants' names follow from it, so that many programs share a store."""
    calls: tuple[Call, ...] = ()

    @property
    def text(self) -> str:
        """Return the program as one argument of a command line."""
        packed = zlib.compress(msgspec.msgpack.encode(self), 9)
        return base64.urlsafe_b64encode(packed).decode()

    @staticmethod
    def of(text: str) -> Program:
        """Return the program that a text stands for."""
        return msgspec.msgpack.decode(zlib.decompress(base64.urlsafe_b64decode(text)), type=Program)
