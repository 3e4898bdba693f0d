"""The answer to journal entries that a worker wrote, as both edges tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.core.records.model import Budget, Failure

NO_BUDGET = Budget()


class Kept(NamedTuple):
    """The store's answer to one entry that broke no limit."""

    accepted: bool
    """False: its name has another content already, which stays."""
    remaining_ms: int = 0
    """The rest of a WAIT's sleep."""


class RecordAnswer(NamedTuple):
    """The answer to entries."""

    live: bool
    """False: the lease is lost, and nothing was written."""
    entries: Sequence[Kept | Failure] = ()
    """One for each, in order; a failure: it broke a limit."""
    remaining_budget: Budget = NO_BUDGET
    """The rest of the run's budget; `NO_BUDGET`: it has none."""
    budget_spent: bool = False
    cancelled: bool = False
    """The lease is lost because the run was cancelled."""
    failure: Failure | None = None
    """Why no call was dropped that was to be. None: nothing stood against it."""
