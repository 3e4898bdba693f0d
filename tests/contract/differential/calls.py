"""The calls of a program, as data that says nothing of any store.

Small numbers stand for everything: which run, which text, which of the commits sent so far. What they
mean is settled when the call is played, from what the program has done until then, so that a program
stays legal with any of its calls left out. That is what makes it shrink well, and what makes a text of
it (`Program.text`) all that a replay needs.
"""

from __future__ import annotations

import base64
import zlib
from enum import StrEnum

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
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


class RowOfTask(Part, frozen=True, kw_only=True):
    """A task that changes."""

    task: int = 0
    status: int = 0


class RowOfExecution(Part, frozen=True, kw_only=True):
    """An execution that changes, and what comes with that."""

    name: int = 0
    status: int = 0
    queue: int = 0
    role: int = 0
    priority: int = 0
    delay: int = 0
    """In halves of a period; 0: none."""
    worker: int = 0
    lease: int = 0
    """0: a LEASED one gets no lease with this commit."""
    limit: int = 0
    result: int = 0
    """0: no outcome comes with it."""


class Check(Part, frozen=True, kw_only=True):
    """A fence, or the lease that a heartbeat is for: one of those given, or none of them."""

    lease: int = 0
    """Counted from the last one given."""
    right: bool = True


class Change(Part, frozen=True, kw_only=True):
    """One commit."""

    tenant: int = 0
    run: int = 0
    base: Base = Base.NEXT
    back: int = 0
    status: int = 0
    text: int = 0
    kind: int = 0
    """At its birth: what the run is listed by."""
    parent: int = 0
    """At its birth: the run that it is forked from; 0: none."""
    plan: int = 0
    """A new revision with so many tasks; 0: none."""
    tasks: tuple[RowOfTask, ...] = ()
    executions: tuple[RowOfExecution, ...] = ()
    fences: tuple[Check, ...] = ()
    timers: tuple[tuple[int, int], ...] = ()
    """Each a name and a delay; a delay of -1 takes it away."""
    inputs: tuple[tuple[int, int], ...] = ()
    messages: tuple[tuple[int, int], ...] = ()
    keyed: tuple[tuple[int, int], ...] = ()
    """Each a key and an execution."""
    events: int = 1
    request: bool = False
    payload: int = 0


class Call(Part, frozen=True, kw_only=True, tag=True):
    """The base of all calls."""

    connection: int = 0
    """Which of the two connections to the store it goes through."""


class CommitCall(Call, frozen=True, kw_only=True):
    """`commit` of several at once."""

    changes: tuple[Change, ...] = ()


class RenewCall(Call, frozen=True, kw_only=True):
    """`renew` of several at once."""

    beats: tuple[Check, ...] = ()
    lease: int = 1
    progress: int = 0
    session: bool = False


class Wanted(Part, frozen=True, kw_only=True):
    """The steps that one worker would accept."""

    tenant: int = 0
    queues: int = 0
    kinds: int = 0
    roles: int = 0
    limit: int = 0


class ClaimCall(Call, frozen=True, kw_only=True):
    """`claim`."""

    wants: tuple[Wanted, ...] = ()
    due_limit: int = 0
    hold: bool = False


class PassCall(Call, frozen=True, kw_only=True):
    """Time passes."""

    periods: int = 1


class LoadCall(Call, frozen=True, kw_only=True):
    """`load` and `get_run`."""

    tenant: int = 0
    run: int = 0
    since: int = 0


class FetchCall(Call, frozen=True, kw_only=True):
    """`read_payloads`, `read_outcomes` and `read_plan`."""

    tenant: int = 0
    run: int = 0


class EventsCall(Call, frozen=True, kw_only=True):
    """One `read_events`."""

    tenant: int = 0
    run: int = 0
    after: int = 0
    limit: int = 1


class ListCall(Call, frozen=True, kw_only=True):
    """A run's tasks, executions, messages or log, page by page."""

    tenant: int = 0
    run: int = 0
    what: int = 0
    only: int = 0
    limit: int = 1


class RunsCall(Call, frozen=True, kw_only=True):
    """`list_runs`, page by page."""

    tenant: int = 0
    by: int = 0
    """Which filter."""
    value: int = 0
    limit: int = 1


class InputsCall(Call, frozen=True, kw_only=True):
    """`list_inputs`, page by page: of one run, or of all."""

    tenant: int = 0
    run: int = 0
    of_run: bool = False
    limit: int = 1


class FindCall(Call, frozen=True, kw_only=True):
    """`find_keyed`."""

    tenant: int = 0
    pipeline: int = 0


class EndedCall(Call, frozen=True, kw_only=True):
    """`list_ended`."""

    tenant: int = 0
    statuses: int = 0
    pipeline: int = 0
    limit: int = 1
    ancient: bool = False
    """Only such as ended before there were computers."""


class FeedCall(Call, frozen=True, kw_only=True):
    """`feed` from where it was last read: a page, or all that there is."""

    reader: int = 0
    limit: int = 1
    to_the_end: bool = True


class LogCall(Call, frozen=True, kw_only=True):
    """`append_logs`."""

    tenant: int = 0
    run: int = 0
    lines: tuple[tuple[int, int], ...] = ((0, 0),)
    """Each an execution and a text."""


class TrimCall(Call, frozen=True, kw_only=True):
    """`trim_logs`."""

    tenant: int = 0
    run: int = 0
    name: int = 0
    kind: int = 0


class PurgeCall(Call, frozen=True, kw_only=True):
    """`purge_logs`, until there are no more."""

    periods: int = 0
    limit: int = 1


class ReadOnCall(Call, frozen=True, kw_only=True):
    """`read_logs` from the cursor at which it last ended."""

    tenant: int = 0
    run: int = 0
    only: int = 0
    limit: int = 1


class DeleteCall(Call, frozen=True, kw_only=True):
    """`delete_run`."""

    tenant: int = 0
    run: int = 0
    off: int = 0


class PresenceCall(Call, frozen=True, kw_only=True):
    """`put_presence` (a `ttl` of 0 forgets) and `list_presence`."""

    tenant: int = 0
    workers: tuple[int, ...] = (0,)
    ttl: int = 1
    text: int = 0


class LeasesCall(Call, frozen=True, kw_only=True):
    """`list_leases`."""

    tenant: int = 0
    worker: int = 0


class NonsenseCall(Call, frozen=True, kw_only=True):
    """A cursor that no store made."""

    what: int = 0


class ReopenCall(Call, frozen=True, kw_only=True):
    """The store is closed and opened again; holds may be forgotten, so a period passes."""


AnyCall = (
    CommitCall
    | RenewCall
    | ClaimCall
    | PassCall
    | LoadCall
    | FetchCall
    | EventsCall
    | ListCall
    | RunsCall
    | InputsCall
    | FindCall
    | EndedCall
    | FeedCall
    | LogCall
    | TrimCall
    | PurgeCall
    | ReadOnCall
    | DeleteCall
    | PresenceCall
    | LeasesCall
    | NonsenseCall
    | ReopenCall
)


class Program(Part, frozen=True, kw_only=True):
    """Calls in their order."""

    number: int = 0
    """Its tenants' names follow from it, so that many programs share a store."""
    calls: tuple[AnyCall, ...] = ()

    @property
    def text(self) -> str:
        """Return the program as one argument of a command line."""
        packed = zlib.compress(msgspec.msgpack.encode(self), 9)
        return base64.urlsafe_b64encode(packed).decode()

    @staticmethod
    def of(text: str) -> Program:
        """Return the program that a text stands for."""
        return msgspec.msgpack.decode(zlib.decompress(base64.urlsafe_b64decode(text)), type=Program)
