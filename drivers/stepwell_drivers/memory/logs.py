"""The logs of all runs: appended outside of commits, trimmed, and purged by the time of appending.

A cursor is the number of an entry within its run's log. Numbers are never reused, so a cursor stays
valid whatever is removed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from stepwell.core.port import Page
from stepwell.core.records.model import LogEntry
from stepwell.core.records.states import LogKind


class RunLog:
    """The kept log entries of one run."""

    __slots__ = ("_entries", "_numbers", "next_number")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._entries: list[LogEntry] = []
        self.next_number = 0

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Append entries under new numbers."""
        self._numbers.extend(range(self.next_number, self.next_number + len(entries)))
        self._entries.extend(entries)
        self.next_number += len(entries)

    def trim(self, execution_id: str, kind: LogKind) -> int:
        """Remove the entries of a kind that an execution wrote; return how many."""
        kept = [
            (number, entry)
            for number, entry in zip(self._numbers, self._entries, strict=True)
            if entry.execution_id != execution_id or entry.kind is not kind
        ]
        removed = len(self._numbers) - len(kept)
        self._numbers = [number for number, _ in kept]
        self._entries = [entry for _, entry in kept]
        return removed

    def drop(self, first: int, end: int, limit: int) -> int:
        """Remove up to `limit` entries whose numbers lie in `[first, end)`; return how many."""
        start = bisect_left(self._numbers, first)
        stop = min(bisect_left(self._numbers, end), start + limit)
        del self._numbers[start:stop]
        del self._entries[start:stop]
        return stop - start

    def clear(self) -> None:
        """Remove the whole log."""
        self._numbers.clear()
        self._entries.clear()

    def has(self, first: int, end: int) -> bool:
        """Return whether an entry's number lies in `[first, end)`."""
        return bisect_left(self._numbers, first) < bisect_left(self._numbers, end)

    def page(self, execution_id: str, cursor: int, limit: int) -> Page[LogEntry]:
        """Return a page that starts at a cursor, and the next cursor."""
        found: list[LogEntry] = []
        next_number = max(cursor, self.next_number)
        for at in range(bisect_left(self._numbers, cursor), len(self._numbers)):
            if len(found) >= max(limit, 1):
                next_number = self._numbers[at]
                break
            if execution_id in {"", self._entries[at].execution_id}:
                found.append(self._entries[at])
        return Page(items=tuple(found), cursor=str(next_number))


class LogBook:
    """The order and times of appends to all logs, for purging."""

    def __init__(self) -> None:
        self._calls: deque[tuple[int, RunLog, int, int]] = deque()

    def append(self, log: RunLog, entries: Sequence[LogEntry], now_us: int) -> None:
        """Append to a run's log, and remember the time."""
        if entries:
            first = log.next_number
            log.append(entries)
            self._calls.append((now_us, log, first, log.next_number))

    def purge(self, until_us: int, limit: int) -> int:
        """Remove up to `limit` entries that were appended up to `until_us`, oldest first; return how many."""
        removed = 0
        while self._calls and removed < limit:
            appended_us, log, first, end = self._calls[0]
            if appended_us > until_us:
                break
            removed += log.drop(first, end, limit - removed)
            if not log.has(first, end):
                self._calls.popleft()
        return removed
