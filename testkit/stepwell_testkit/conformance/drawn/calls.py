"""A program: calls as data, independent of any store.

A call gets its meaning when it is played, from what the program has done so far. A program thus
stays legal when any of its calls are left out, which makes it shrink well, and its text
(`Program.text`) is enough for a replay.
"""

from __future__ import annotations

import base64
import zlib
from enum import StrEnum

import msgspec

from stepwell.core.port import NOBODY, EntryWrite, Reservation, Timer
from stepwell.core.records.model import Message, Question
from stepwell.core.records.states import ExecutionStatus, RunStatus, TaskStatus
from stepwell_testkit.conformance.drawn.names import EXECUTIONS, KEYS, QUEUES, RUNS, WORKERS, Named


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of a call's parts."""


class Base(StrEnum):
    """The version that a commit builds on."""

    NEXT = "next"
    """The current version; the run is created if it doesn't exist."""
    AGAIN = "again"
    """An earlier commit is sent again unchanged."""
    STALE = "stale"
    """`back` versions too low: at 0, a rival of the run's last commit."""
    AHEAD = "ahead"
    """A version too high."""
    CREATE = "create"
    """Version 1, whatever exists."""


class Row(Part, frozen=True, kw_only=True):
    """A changed execution, and what comes with it."""

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
    """0: no lease for a LEASED execution."""
    limit_ms: int = 0
    result: int = 0
    """0: no outcome."""


class Check(Part, frozen=True, kw_only=True):
    """A fence or a heartbeat's lease: a granted lease, or none."""

    lease: int = 0
    """Counted back from the last granted lease."""
    right: bool = True
    recorded: int | None = None
    """The difference between a fence's number of entries and the recorded number. None: the fence has no number."""


class Swap(Part, frozen=True, kw_only=True):
    """A swap of an idempotency key's reservation; by default it only reads."""

    key: str = KEYS[0]
    right: bool = False
    """True: it is made for the current reservation, whatever `before` is."""
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
    """At its creation: the fields that the run is listed by."""
    parent: str = ""
    """At its creation: the run that it is forked from."""
    plan: int = 0
    """A new revision with this many tasks; 0: none."""
    tasks: tuple[tuple[int, TaskStatus], ...] = ()
    executions: tuple[Row, ...] = ()
    fences: tuple[Check, ...] = ()
    timers: tuple[Timer, ...] = ()
    questions: tuple[Question, ...] = ()
    messages: tuple[Message, ...] = ()
    entries: tuple[EntryWrite, ...] = ()
    forgotten: tuple[EntryWrite, ...] = ()
    events: int = 1
    checkpoint: int = 0
    """0: none. 1: without a base. Above: with a base."""
    request: bool = False
    payload: int = 0


class Call(Part, frozen=True, kw_only=True):
    """A call of one of the player's methods."""

    method: str
    via: int = 0
    """The connection to the store, of two."""
    arguments: dict[str, object] = {}


class Program(Part, frozen=True, kw_only=True):
    """Calls in their order."""

    number: int = 0
    """The number from which its tenants' names follow, so that many programs share a store."""
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
