"""The answer to a worker's journal entries, for both the stream and the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepwell.core.records.model import Budget, Failure

NO_BUDGET = Budget()


class Kept(NamedTuple):
    """The store's answer to one entry that broke no limit."""

    accepted: bool
    """False: its name has other content already, which stays."""
    remaining_ms: int = 0
    """The rest of a WAIT's sleep."""


class JournalAnswer(NamedTuple):
    """The answer to entries."""

    live: bool
    """False: the lease is lost, and nothing was written."""
    entries: Sequence[Kept | Failure] = ()
    """One for each entry, in order; a failure if the entry broke a limit."""
    remaining_budget: Budget = NO_BUDGET
    """The rest of the run's budget, or `NO_BUDGET`."""
    budget_spent: bool = False
    cancelled: bool = False
    """The lease is lost because the run was cancelled."""
    failure: Failure | None = None
    """Why no call was dropped, or None if they were."""
    children: Mapping[str, str] = {}
    """The ids of the child runs that opened calls wait for, by call."""
