"""Replies that several rules give."""

from __future__ import annotations

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.signals import Reply, ReplyStatus

UNCHANGED = Reply(status=ReplyStatus.UNCHANGED)
LEASE_LOST = Reply(
    status=ReplyStatus.LEASE_LOST,
    reason="LEASE_LOST",
    message="this execution is not yours any more; drop its outcome",
)


def refused(reason: str, message: str) -> Reply:
    """Return the reply to a command that the run is in no state for."""
    return Reply(status=ReplyStatus.REFUSED, reason=reason, message=message)


def run_ended(draft: Draft, why: str) -> Reply:
    """Return the reply to a command that comes after the run's end."""
    return refused("RUN_ENDED", f"the run is over, {draft.run.status}; {why}")
