"""The result of `advance`: the commit, one reply per occurrence, and further actions."""

from __future__ import annotations

from enum import StrEnum

from stepwell.core.port import Commit, JournalQuery
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Record, Run, Violation


class ReplyStatus(StrEnum):
    """The kind of the answer to an occurrence."""

    ACCEPTED = "ACCEPTED"
    UNCHANGED = "UNCHANGED"
    """The occurrence was applied before, or there was nothing to do."""
    LEASE_LOST = "LEASE_LOST"
    """The worker no longer holds the lease; its delivery changed nothing."""
    REJECTED = "REJECTED"
    """The delivery was invalid; it counts as a failed attempt."""
    REFUSED = "REFUSED"
    """The run's state doesn't allow this occurrence."""


class Reply(Record, frozen=True, kw_only=True):
    """The answer to one occurrence, true once the transition is committed."""

    status: ReplyStatus = ReplyStatus.ACCEPTED
    reason: str = ""
    """A stable word if the status isn't ACCEPTED."""
    message: str = ""
    violations: tuple[Violation, ...] = ()
    run: Run | None = None
    """The run after a command; None if the command was refused, or the occurrence came from a worker."""
    children: dict[str, str] = {}
    """After calls were opened: the ids of the child runs that they wait for, by call."""
    steered: str = ""
    """After a start in a thread: the run that is sent a signal in its place."""


UNCHANGED = Reply(status=ReplyStatus.UNCHANGED)
LEASE_LOST = Reply(
    status=ReplyStatus.LEASE_LOST,
    reason="LEASE_LOST",
    message="this execution is not yours any more; drop its outcome",
)


def refused(reason: str, message: str) -> Reply:
    """Return the reply to a command that the run's state doesn't allow."""
    return Reply(status=ReplyStatus.REFUSED, reason=reason, message=message)


def run_ended(run: Run, why: str) -> Reply:
    """Return the reply to a command that comes after the run's end."""
    return refused("RUN_ENDED", f"the run is over, {run.status}; {why}")


class Revoked(Record, frozen=True, kw_only=True):
    """A lease that the transition ends early; its worker is notified."""

    execution_id: str
    worker_id: str
    reason: str


class EndedCall(Record, frozen=True, kw_only=True):
    """The end of a call of a running step; the step's worker is told."""

    execution_id: str
    worker_id: str
    entry: Entry
    """Its END."""


class Transition(Record, frozen=True, kw_only=True):
    """The decision on one run: what to commit, and what to do once the commit is acknowledged."""

    run: Run
    """The run after the commit; without a commit, unchanged."""
    commit: Commit | None = None
    """None if nothing changes, so that the replies are true at once."""
    replies: tuple[Reply, ...] = ()
    asked_keys: dict[str, bool] = {}
    """Idempotency keys on which the decision depends and that `Context.keys` lacks: ask the store
    first. True: reserve the key for this run; False: only read."""
    asked_pages: tuple[JournalQuery, ...] = ()
    """Questions for entries of the run's journals on which the decision depends and that `Context.pages` lacks: read
    them first."""
    offered: tuple[str, ...] = ()
    """Executions that became READY and were not leased to a free worker, in the order of the offer."""
    revoked: tuple[Revoked, ...] = ()
    ended_calls: tuple[EndedCall, ...] = ()

    @property
    def asks(self) -> bool:
        """True if the store must be read first, and the decision made again."""
        return bool(self.asked_keys or self.asked_pages)
