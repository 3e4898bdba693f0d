"""A cache of the runs that were written last, so their next commits are checked without reading the
file.

One process has the file. If another program writes to it nevertheless, the cache is cleared.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from stepwell.core.records.journal import Totals

RUNS_MAX = 4_096
"""The most runs in the cache."""

RunKey = tuple[str, str]
"""A tenant, and the id of a run."""


class Kept(NamedTuple):
    """The facts of a lease that differ from a new lease's."""

    totals: Totals = Totals()
    """The sums of what the lease recorded."""
    is_leased: bool = True
    """False: the execution's outcome is unknown, so nothing more can be recorded."""
    forget_number: int = 0
    """JournalWrites of its execution with a lower number are late."""


NOTHING = Kept()
"""The facts of a new lease."""


class Facts(NamedTuple):
    """The facts of a run that verdicts depend on, as its last commit left them."""

    run_key: int
    version: int
    commit_id: str
    listed: tuple[str, int]
    """Its status and its end, by which indexes list it."""
    tokens: dict[str, str]
    """Known tokens of its leases by execution; "": that execution has no lease."""
    recorded: dict[str, Kept]
    """The facts of these leases by execution; missing: those of a new lease."""


class Known:
    """Facts of runs as stored in the file; a transaction adds its own once committed."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RunKey, Facts] = OrderedDict()
        self._data_version = 0

    def check(self, driver: sqlite3.Connection) -> None:
        """Clear the cache if another program has written to the file. Within a transaction none can."""
        (data_version,) = driver.execute("PRAGMA data_version").fetchone()
        if data_version != self._data_version:
            self._data_version = data_version
            self._runs.clear()

    def of(self, run: RunKey) -> Facts | None:
        """Return the facts of a run, or None if they are not known."""
        return self._runs.get(run)

    def keep(self, runs: Mapping[RunKey, Facts]) -> None:
        """Take over the facts that a transaction has left in the file."""
        for run, facts in runs.items():
            # An execution without a lease gets one only by a commit.
            run_key, version, commit_id, listed, tokens, recorded = facts
            if "" in tokens.values():
                leased = {name: token for name, token in tokens.items() if token}
                facts = Facts(run_key, version, commit_id, listed, leased, recorded)
            self._runs[run] = facts
            self._runs.move_to_end(run)
        while len(self._runs) > RUNS_MAX:
            self._runs.popitem(last=False)

    def forget(self, run: RunKey) -> None:
        """Forget a run, so that its next commit is checked against the file."""
        self._runs.pop(run, None)
