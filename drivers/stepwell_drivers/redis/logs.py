"""Logs: a stream for each run, whose ids are the times of appending by the store's clock.

The oldest entries are at a stream's start, so a purge reads nothing newer. An index in each
partition tells which run has the oldest entry. If many runs wrote at the same time, a purge removes
a little from each in turn, and more the longer it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.core.port import LogQuery, LogsOfExecution, OldLogs, Page
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.core.records.model import LogEntry
from stepwell.core.records.states import LogKind
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.cursors import cursor_of, place_of
from stepwell_drivers.redis.keys import RunKeys
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import micros
from stepwell_drivers.redis.rows import log_of, packed
from stepwell_drivers.redis.scripts import Call

LOG_ENTRIES_MAX = 100_000
"""The approximate number of entries that a run keeps; older ones are removed."""
READ_AT_ONCE = 1_000
"""Page size when reading one execution's entries."""
REMOVED_AT_ONCE = 500
"""Entries that one script removes."""
RUNS_AT_ONCE = 32
"""Runs of each partition in a round of a purge."""
STRICT_ROUNDS = 16
"""The rounds of a purge that remove entries of all runs strictly by age. After these, each round
covers twice the time span of the round before."""
_LATEST_US = 9 * 10**15
_AFTER_MAX = 2**63 - 1


class Logs:
    """The logs of all runs."""

    def __init__(self, base: Base) -> None:
        self._base = base

    async def append(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> bool:
        """Append to a run's log, each entry once; return False if the run doesn't exist."""
        run = self._base.run(tenant_id, run_id)
        one = run.partition
        # Names this call: after a lost reply it tells whether the entries were appended.
        name = self._base.network.runtime.new_id().encode()
        keys = (one.book, run.rows, run.logs, run.log_marks, one.logged)
        lines = [
            part
            for entry in entries
            for part in (_mark(entry.kind, entry.execution_id), packed(entry))
        ]
        call = (run.name.encode(), number(LOG_ENTRIES_MAX), name)
        script = self._base.scripts.log
        try:
            answer = await self._base.call(one, script, keys, *call, b"", *lines, again=False)
        except OutcomeUnknown:
            answer = await self._base.call(one, script, keys, *call, b"again", *lines)
        return answer == 1

    async def page(self, query: LogQuery) -> Page[LogEntry]:
        """Return log entries; the last page has a cursor, too."""
        run, limit = self._base.run(query.tenant_id, query.run_id), max(query.limit, 1)
        moment, count = place_of(query.cursor, "l", tuple[int, int], (0, 0))
        if not (0 <= moment <= _AFTER_MAX and 0 <= count <= _AFTER_MAX):
            moment, count = _AFTER_MAX, 0
        many = limit if not query.execution_id else READ_AT_ONCE
        entries: list[LogEntry] = []
        while len(entries) < limit:
            sent = ("XRANGE", run.logs, f"({moment}-{count}", "+", "COUNT", many)
            found: list[Any] = await self._base.read(run, sent)
            for name, fields in found:
                if len(entries) >= limit:
                    break
                moment, count = map(int, name.split(b"-"))
                entry = log_of(fields[1])
                if query.execution_id in {"", entry.execution_id}:
                    entries.append(entry)
            if len(found) < many:
                break
        return Page(items=tuple(entries), cursor=cursor_of("l", (moment, count)))

    async def trim(self, which: LogsOfExecution) -> int:
        """Remove the entries of one kind of an execution, some at a time; return how many."""
        run = self._base.run(which.tenant_id, which.run_id)
        one = run.partition
        keys = (run.logs, run.log_marks, one.logged)
        arguments = (
            run.name.encode(),
            _mark(which.kind, which.execution_id),
            number(REMOVED_AT_ONCE),
        )
        removed, more = 0, 1
        while more:
            found, more = await self._base.call(one, self._base.scripts.trim, keys, *arguments)
            removed += found
        return removed

    # --- purging ---

    async def purge(self, which: OldLogs) -> int:
        """Remove old entries of any run, the oldest first; return how many."""
        older, limit = number(micros(max(which.older_ms, 0))), max(which.limit, 1)
        removed = rounds = slack_us = 0
        while removed < limit:
            oldest = await self._oldest(older)
            if not oldest:
                break
            # Up to the next run's oldest entry, and a little further.
            latest_us = oldest[1][0] + slack_us if len(oldest) > 1 else _LATEST_US
            few = [run for moment, run in oldest if moment <= latest_us]
            removed += await self._remove(few, older, latest_us, limit - removed)
            rounds += 1
            if rounds >= STRICT_ROUNDS:
                slack_us = max(1_000, 2 * slack_us)
        return removed

    async def _oldest(self, older: bytes) -> list[tuple[int, RunKeys]]:
        """Return runs that may have an old enough entry, each with a moment no later than that entry."""
        base = self._base
        asks = [
            Ask(
                one.slot,
                Call(base.scripts.logged, (one.book, one.logged), (older, number(RUNS_AT_ONCE))),
            )
            for one in base.keys.partitions
        ]
        found: list[tuple[int, RunKeys]] = []
        for reply in await base.network.ask_all(asks):
            for name, moment in zip(reply[::2], reply[1::2], strict=True):
                found.append((int(float(moment)), base.keys.of_name(name)))
        return sorted(found, key=lambda one: (one[0], one[1].name))

    async def _remove(
        self, runs: Sequence[RunKeys], older: bytes, latest_us: int, limit: int
    ) -> int:
        share = min(-(-limit // len(runs)), REMOVED_AT_ONCE)
        asks: list[Ask] = []
        for run in runs[:limit]:
            one = run.partition
            arguments = (run.name.encode(), older, number(latest_us), number(share))
            keys = (one.book, run.logs, run.log_marks, one.logged)
            asks.append(Ask(one.slot, Call(self._base.scripts.purge, keys, arguments)))
        return sum(await self._base.network.ask_all(asks))


def _mark(kind: LogKind, execution_id: str) -> bytes:
    return f"{kind}\x01{execution_id}".encode()
