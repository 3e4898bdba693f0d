"""The runs that were written last, as the file has them: verdicts on their next commits need no look at it.

One process has the file. Should another program write to it all the same, everything is read again.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from stepwell.core.records.journal import Totals

RUNS_MAX = 4_096
"""Runs that are known at once."""

RunKey = tuple[str, str]
"""A tenant, and the id of a run."""


class Kept(NamedTuple):
    """The facts of a lease, where they are others than those of a new one."""

    totals: Totals = Totals()
    """The sums of what it recorded."""
    is_leased: bool = True
    """False: its execution's outcome is unknown, and nothing can be recorded any more."""
    forget_number: int = 0
    """The number of its execution below which a recording is late."""


NOTHING = Kept()
"""The facts of a new lease."""


class Facts(NamedTuple):
    """The facts of a run on which verdicts depend, as its last commit left them."""

    run_key: int
    version: int
    commit_id: str
    listed: tuple[str, int]
    """Its status and its end, by which indexes list it."""
    tokens: dict[str, str]
    """Tokens of its leases by execution, as far as they are known; empty: that execution has no lease."""
    recorded: dict[str, Kept]
    """More about leases whose tokens are known, by execution; none: it is as of a new one."""


class Known:
    """Facts of runs that stand in the file: a transaction brings its own when it has been committed."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RunKey, Facts] = OrderedDict()
        self._data_version = 0

    def check(self, driver: sqlite3.Connection) -> None:
        """Forget everything if another program has written to the file. Within a transaction none can."""
        (data_version,) = driver.execute("PRAGMA data_version").fetchone()
        if data_version != self._data_version:
            self._data_version = data_version
            self._runs.clear()

    def of(self, run: RunKey) -> Facts | None:
        """Return the facts of a run; None: they are not known."""
        return self._runs.get(run)

    def keep(self, runs: Mapping[RunKey, Facts]) -> None:
        """Take over what a transaction has left in the file."""
        for run, facts in runs.items():
            # An execution that has no lease gets none, or gets it by a commit.
            run_key, version, commit_id, listed, tokens, recorded = facts
            if "" in tokens.values():
                leased = {name: token for name, token in tokens.items() if token}
                facts = Facts(run_key, version, commit_id, listed, leased, recorded)
            self._runs[run] = facts
            self._runs.move_to_end(run)
        while len(self._runs) > RUNS_MAX:
            self._runs.popitem(last=False)

    def forget(self, run: RunKey) -> None:
        """Forget a run: its next commit is judged by what is in the file."""
        self._runs.pop(run, None)
